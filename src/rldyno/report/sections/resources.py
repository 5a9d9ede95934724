"""CPU and memory against time, of the worker's processes and of the machine; memory by stage of a run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from rldyno.answers.groups import Group
from rldyno.answers.runs import Runs
from rldyno.report.charts import draw_stacked
from rldyno.report.material import GroupPlace, Material
from rldyno.report.section import Chart, Section, significant
from rldyno.report.series import Curve, Points, Run, band_while_running, rate_band
from rldyno.text.numbers import number
from rldyno.text.tables import Table

CAPTION = (
    "The worker and all its child processes, measured from outside. Against time: lines are medians over "
    "seeds, bands lie between the quartiles; both end where the contestant's shortest run ends. Memory by "
    "stage: what each stage adds to the resident memory (importing the framework, building environments "
    "and learner, the first calls, training), and its peak; medians over seeds."
)
MACHINE_CAPTION = (
    "The whole machine, with everything else that ran on it: CPU in percent of all its cores, memory in "
    "percent of all its memory, read once a second. Lines are medians over seeds, bands lie between the "
    "quartiles; both end where the contestant's shortest run ends."
)
# Stage → the column with the resident set at its end; each adds to the one before. The framework's holds the
# interpreter, the learner's the environments, the first calls compile and warm up.
STAGES = {
    "framework": "memory_after_import_bytes",
    "learner": "memory_after_build_bytes",
    "first calls": "memory_after_first_call_bytes",
    "training": "memory_steady_bytes",
    "peak": "peak_rss_bytes",
}
USAGE = ("time_ns", "cpu_user_ns", "cpu_system_ns", "rss_bytes")


def used(name: str, run: Run) -> Points | None:
    return None if run.usage is None else (run.usage["time_s"], run.usage[name])


CURVES = (
    Curve(
        id="cpu",
        title="CPU use against time",
        caption=CAPTION,
        x_title="seconds since start",
        y_title="CPU, % of one core",
        points=partial(used, "cpu_s"),
        join=rate_band,
        samples=USAGE,
    ),
    Curve(
        id="memory",
        title="Memory against time",
        caption=CAPTION,
        x_title="seconds since start",
        y_title="resident memory, MB",
        points=partial(used, "rss_mb"),
        join=band_while_running,
        samples=USAGE,
    ),
)


def sampled(column: str, scale: float, run: Run) -> Points | None:
    return run.sampled(column, scale)


def machine_curve(chart_id: str, title: str, y_title: str, column: str) -> Curve:
    return Curve(
        id=chart_id,
        title=title,
        caption=MACHINE_CAPTION,
        x_title="seconds since start",
        y_title=y_title,
        points=partial(sampled, column, 1.0),
        join=band_while_running,
        samples=(*USAGE, column),
    )


MACHINE_CURVES = (
    machine_curve(
        "machine-cpu", "CPU of the machine against time", "CPU, % of the machine", "machine_cpu_percent"
    ),
    machine_curve(
        "machine-memory",
        "Memory of the machine against time",
        "memory, % of the machine",
        "machine_memory_percent",
    ),
)


def charts(material: Material) -> Any:
    return material.panels(
        lambda place: [
            *map(place.bands, CURVES),
            split_chart(place),
            *map(place.bands, MACHINE_CURVES),
        ]
    )


def split_chart(place: GroupPlace) -> Chart:
    draw = partial(
        draw_stacked,
        parts=tuple(STAGES),
        palette="stages",
        column="mb",
        x_title="resident memory, MB",
        form="~s",
        # It stands beside two other charts.
        columns=2,
    )
    rows = split_rows(place.group)
    return Chart("memory-split", "Memory, by the stage that takes it", CAPTION, draw, rows)


def split_rows(group: Group) -> list[dict[str, Any]]:
    """What each stage adds to the resident set, in MB: medians over runs. A stage that frees adds nothing."""
    rows = []
    ran = [row for row in group.rows if len(group.runs[row.contestant])]
    for order, row in enumerate(ran):
        held = 0.0
        for index, (stage, column) in enumerate(STAGES.items()):
            level = group.runs[row.contestant].middle(column)
            if level is None:
                continue
            added, held = max(0.0, level - held), max(held, level)
            rows.append(
                {
                    "contestant": row.contestant,
                    "order": order,
                    "part": stage,
                    "part_order": index,
                    "mb": significant(added / 1e6),
                    "text": f"{number(added / 1e6)} MB, {number(held / 1e6)} MB in all",
                }
            )
    known = {row["part"] for row in rows}
    # The peak alone splits nothing.
    return rows if len(known) > 1 else []


def growth_tables(groups: Sequence[Group]) -> list[Table]:
    """Growth of the resident set at the end of training, leaks first; none where it was not measured."""
    rows = [
        (row.contestant, group.label, *growth_cells(group.runs[row.contestant]))
        for group in groups
        for row in group.rows
        if len(group.runs[row.contestant].known("memory_growth_bytes_per_s"))
    ]
    if not rows:
        return []
    rows.sort(key=lambda row: row[-1] in ("none", "–"))
    columns = (
        "Contestant",
        "Comparison",
        "Steady, MB",
        "In use at the end, MB",
        "Growth, kB/s",
        "Widest 95 % interval",
        "Leaks in",
    )
    title = "Growth of memory over the second half of training, and leaks"
    return [Table("memory-growth", title, columns, tuple(rows))]


def growth_cells(runs: Runs) -> tuple[str, ...]:
    growth = runs.known("memory_growth_bytes_per_s")
    low, high = (runs.known(f"memory_growth_{end}") for end in ("low", "high"))
    steady, in_use = runs.middle("memory_steady_bytes"), runs.middle("memory_used_bytes")
    leaks, checked = int((runs["memory_leak"] > 0).sum()), len(runs.known("memory_leak"))
    widest = f"{kilobytes(low.min())} to {kilobytes(high.max())}" if len(low) and len(high) else "–"
    return (
        *("–" if held is None else number(held / 1e6) for held in (steady, in_use)),
        kilobytes(float(np.median(growth))),
        widest,
        f"{leaks} of {checked} runs" if leaks else "none" if checked else "–",
    )


def kilobytes(value: float) -> str:
    return "–" if math.isnan(value) else f"{value / 1e3:+,.1f}"


SECTION = Section(
    id="resources",
    order=60,
    title="CPU and memory",
    about="the worker's processes and the whole machine against time; where memory goes",
    charts=charts,
    tables=lambda material: growth_tables(material.groups),
    curves=(*CURVES, *MACHINE_CURVES),
    shown=lambda _: True,
    legend=True,
)
