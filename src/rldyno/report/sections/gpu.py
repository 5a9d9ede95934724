"""Use, memory and power of the GPU against time."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from rldyno.report.material import Material
from rldyno.report.section import Section
from rldyno.report.sections.resources import USAGE, sampled
from rldyno.report.series import Curve, Points, Run, band_while_running

MEMORY = "gpu_memory_bytes"
CAPTION = (
    "What the counters of the GPU report, start-up included. Lines are medians over seeds, bands lie between "
    "the quartiles; both end where the contestant's shortest run ends. Memory is that of the trial, "
    "in MB and in percent of all memory of its GPUs."
)


def memory_percent(run: Run) -> Points | None:
    """Of the memory that the trial's GPUs have; None where a record does not say how much that is."""
    return run.sampled(MEMORY, 100 / run.gpu_memory_bytes) if run.gpu_memory_bytes else None


def gpu_curve(
    chart_id: str, title: str, y_title: str, column: str, points: Callable[[Run], Points | None]
) -> Curve:
    return Curve(
        id=chart_id,
        title=title,
        caption=CAPTION,
        x_title="seconds since start",
        y_title=y_title,
        points=points,
        join=band_while_running,
        samples=(*USAGE, column),
    )


CURVES = (
    gpu_curve("gpu", "GPU use against time", "GPU, %", "gpu_percent", partial(sampled, "gpu_percent", 1.0)),
    gpu_curve(
        "gpu-memory", "GPU memory against time", "GPU memory, MB", MEMORY, partial(sampled, MEMORY, 1e-6)
    ),
    gpu_curve(
        "gpu-memory-percent",
        "Share of the GPU's memory against time",
        "GPU memory, % of the GPU",
        MEMORY,
        memory_percent,
    ),
    gpu_curve(
        "power",
        "Power of the GPU against time",
        "power, W",
        "gpu_power_w",
        partial(sampled, "gpu_power_w", 1.0),
    ),
)


def charts(material: Material) -> Any:
    return material.panels(lambda place: [place.bands(curve) for curve in CURVES], only_recorded=True)


SECTION = Section(
    id="gpu",
    order=70,
    title="GPU and power",
    about="use, memory and power of the GPU against time",
    short="GPU",
    charts=charts,
    curves=CURVES,
    legend=True,
)
