"""Where the time of the training loop goes, and what a step costs in each phase as training goes on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import polars as pl

from rldyno.answers.groups import FRAMEWORK, Group, Row
from rldyno.answers.runs import Runs
from rldyno.records.status import DONE
from rldyno.report.charts import draw_stacked
from rldyno.report.material import GroupPlace, Material
from rldyno.report.section import Chart, Section, significant
from rldyno.report.series import Band, Curve, Points, Run, from_zero, quartile_band
from rldyno.text.numbers import number, span
from rldyno.text.tables import Table
from rldyno_rig import schema

# A phase that takes less of everybody's training than this has no curve.
LEAST_SHARE = 0.01
PER_STEP = (
    "Time of the training loop per environment step, without start-up; means over seeds. Left: the phases in "
    "which the framework computes (" + ", ".join(schema.FRAMEWORK_PHASES) + "). Right: what all contestants "
    "share ("
    + ", ".join(schema.SHARED_PHASES)
    + "): the same code, but it runs at a different speed in each process."
)
OF_TEAMS = (
    "Of several workers the phases are those of worker 0 and the steps those of all; communicate is "
    "averaging gradients and waiting for the other workers."
)
OVER_TIME = (
    "Time per step in each phase as training goes on, from one reading per second. Lines are medians over "
    "seeds, bands lie between the quartiles; both end where the contestant's shortest run ends. Not shown: "
    "phases below 1 % of the training time of every contestant, and contestants that finished within two "
    "seconds."
)


def spent(phase: str, run: Run) -> Points | None:
    """(steps, nanoseconds in the phase so far); two rows and fewer make no curve."""
    steps, nanoseconds = run.progress["step"], run.progress[f"{phase}_ns"]
    known = np.isfinite(steps + nanoseconds)
    return (steps[known], nanoseconds[known]) if known.sum() > 2 else None


def cost_band(contestant: str, runs: Sequence[Points], points: int) -> Band:
    """Microseconds per step."""
    rows = min(len(steps) for steps, _ in runs)
    # As far as all of the runs went.
    edges = np.linspace(0, min(steps[-1] for steps, _ in runs), min(points, rows) + 1)
    totals = np.stack([from_zero(edges, *run) for run in runs])
    costs = np.diff(totals) / np.diff(edges) / 1e3
    return quartile_band(contestant, (edges[:-1] + edges[1:]) / 2, costs)


CURVES = tuple(
    Curve(
        id=f"phase-{phase}",
        title=f"Time in {phase}",
        caption=OVER_TIME,
        x_title="environment steps",
        y_title="µs per step",
        points=partial(spent, phase),
        join=cost_band,
        progress=("step", f"{phase}_ns"),
    )
    for phase in (*schema.PHASES, schema.COMMUNICATE)
)


ORDERED = (*schema.FRAMEWORK_PHASES, *schema.SHARED_PHASES)
TABLE_COLUMNS = (
    "Contestant",
    "Comparison",
    "Framework, µs per step",
    "Shared, µs per step",
    "Framework, share of training",
)


def charts(material: Material) -> Any:
    teams = any(group.axes["workers"] > 1 for group in material.groups)
    return material.panels(lambda place: [step_chart(place.group, teams), *over_time(place)])


def step_chart(group: Group, teams: bool) -> Chart:
    """`teams`: whether some comparison of the report has several workers."""
    draw = partial(
        draw_stacked,
        parts=(*ORDERED, schema.COMMUNICATE) if teams else ORDERED,
        palette="phases",
        column="us",
        x_title="µs per step",
        form=",.3~r",
    )
    caption = f"{PER_STEP} {OF_TEAMS}" if teams else PER_STEP
    return Chart("phases", "Time of a step, by phase", caption, draw, step_rows(group))


def step_rows(group: Group) -> list[dict[str, Any]]:
    """The phases in microseconds per step, and as shares of training."""
    guests = {row.contestant for row in group.rows if row.guest}  # of which only one phase is known
    found = part_rows(group, {phase: f"phase_{phase}_s" for phase in (*ORDERED, schema.COMMUNICATE)})
    rows = [row for row in found if row["contestant"] not in guests]
    steps = {name: float(np.mean(runs["steps"])) for name, runs in group.runs.items() if len(runs)}
    for row in rows:
        us = 1e6 * row["seconds"] / steps[row["contestant"]]
        row |= {"us": significant(us), "text": f"{number(us)} µs, {row['share']:.1%}"}
    return rows


def over_time(place: GroupPlace) -> list[Chart]:
    bands = {curve.id: place.series.bands[curve.id] for curve in CURVES}
    return [place.bands(curve) for curve in CURVES if matters(curve.id, bands)]


def matters(curve: str, found: Mapping[str, Sequence[Band]]) -> bool:
    for band in found[curve]:
        same = [other for bands in found.values() for other in bands if other.contestant == band.contestant]
        if band.y.sum() > LEAST_SHARE * sum(float(other.y.sum()) for other in same):
            return True
    return False


def part_rows(group: Group, columns: Mapping[str, str]) -> list[dict[str, Any]]:
    """Mean seconds of each part, from its column, and its share of all of them."""
    done = group.trials.filter(pl.col("status") == DONE)
    means = done.group_by("contestant").agg(pl.col(list(columns.values())).mean())
    by_contestant = {row["contestant"]: row for row in means.iter_rows(named=True)}
    rows = []
    for order, row in enumerate(row for row in group.rows if row.contestant in by_contestant):
        values = by_contestant[row.contestant]
        total = sum(values[column] or 0 for column in columns.values())
        if not total:
            continue
        rows += [
            {
                "contestant": row.contestant,
                "order": order,
                "part": part,
                "part_order": index,
                "seconds": significant(values[column]),
                "share": significant(values[column] / total),
                "text": f"{number(values[column])} s, {values[column] / total:.1%}",
            }
            for index, (part, column) in enumerate(columns.items())
            if values[column] is not None
        ]
    return rows


def tables(material: Material) -> list[Table]:
    rows = tuple(
        (row.contestant, group.label, *cells)
        for group in material.groups
        for row in group.rows
        if (cells := step_cells(row, group.runs.get(row.contestant))) is not None
    )
    return (
        [Table("framework-time", "Time per step in the framework and around it", TABLE_COLUMNS, rows)]
        if rows
        else []
    )


def step_cells(row: Row, runs: Runs | None) -> tuple[str, ...] | None:
    found = row.figures.get(FRAMEWORK.name)
    shared = None if runs is None else runs.middle("shared_step_s")
    if found is None or shared is None:
        return None
    framework = found.estimate
    communicating = runs.middle("communication_share") if runs is not None else None
    bounds = span(framework, FRAMEWORK.scale)
    return (
        number(framework.point * FRAMEWORK.scale) + (f" ({bounds})" if bounds else ""),
        number(shared * FRAMEWORK.scale),
        f"{framework.point / (framework.point + shared) * (1 - (communicating or 0)):.0%}",
    )


SECTION = Section(
    id="phases",
    order=90,
    title="Phases",
    about="how the training loop spends its time: in the framework, and in what all share",
    charts=charts,
    tables=tables,
    curves=CURVES,
    shown=lambda _: True,
    legend=True,
)
