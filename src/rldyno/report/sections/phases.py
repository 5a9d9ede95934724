"""Where the time of the training loop goes, and what a step costs in each phase as training goes on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import polars as pl

from rldyno.answers.groups import Group
from rldyno.records.status import DONE
from rldyno.report.charts import draw_stacked
from rldyno.report.material import GroupPlace, Material
from rldyno.report.section import Chart, Section, significant
from rldyno.report.series import Band, Curve, Points, Run, from_zero, quartile_band
from rldyno.text.numbers import number
from rldyno_rig import schema

# A phase that takes less of everybody's training than this has no curve.
LEAST_SHARE = 0.01
SHARES = "Shares of the training loop, without start-up; means over seeds."
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
    for phase in schema.PHASES
)


def charts(material: Material) -> Any:
    return material.panels(lambda place: [shares_chart(place.group), *over_time(place)])


def shares_chart(group: Group) -> Chart:
    draw = partial(
        draw_stacked,
        parts=schema.PHASES,
        palette="phases",
        column="share",
        x_title="share of training time",
        form="%",
    )
    rows = part_rows(group, {phase: f"phase_{phase}_s" for phase in schema.PHASES})
    return Chart("phases", "Where training time goes, by phase", SHARES, draw, rows)


def over_time(place: GroupPlace) -> list[Chart]:
    bands = {curve.id: place.series.bands[curve.id] for curve in CURVES}
    return [place.bands(curve) for curve in CURVES if matters(curve.id, bands)]


def matters(curve: str, found: Mapping[str, Sequence[Band]]) -> bool:
    for index, band in enumerate(found[curve]):
        whole = sum(float(bands[index].y.sum()) for bands in found.values())
        if band.y.sum() > LEAST_SHARE * whole:
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


SECTION = Section(
    id="phases",
    order=90,
    title="Phases",
    about="how the training loop spends its time",
    charts=charts,
    curves=CURVES,
    shown=lambda _: True,
    legend=True,
)
