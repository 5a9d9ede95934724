"""Use, memory and power of the GPU against time."""

from __future__ import annotations

from functools import partial
from typing import Any

from rldyno.report.material import Material
from rldyno.report.section import Section
from rldyno.report.sections.resources import USAGE
from rldyno.report.series import Curve, Points, Run, band_while_running

CAPTION = (
    "What the counters of the GPU report, start-up included. Lines are medians over seeds, bands lie between "
    "the quartiles; both end where the contestant's shortest run ends."
)


def sampled(column: str, scale: float, run: Run) -> Points | None:
    return run.sampled(column, scale)


def gpu_curve(chart_id: str, title: str, y_title: str, column: str, scale: float = 1.0) -> Curve:
    return Curve(
        id=chart_id,
        title=title,
        caption=CAPTION,
        x_title="seconds since start",
        y_title=y_title,
        points=partial(sampled, column, scale),
        join=band_while_running,
        samples=(*USAGE, column),
    )


CURVES = (
    gpu_curve("gpu", "GPU use against time", "GPU, %", "gpu_percent"),
    gpu_curve("gpu-memory", "GPU memory against time", "GPU memory, MB", "gpu_memory_bytes", 1e-6),
    gpu_curve("power", "Power of the GPU against time", "power, W", "gpu_power_w"),
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
