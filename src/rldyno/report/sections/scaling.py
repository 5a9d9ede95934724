"""Whole runs as liu2022 draws them: integrals and values per step, against the axes that a study varies."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import polars as pl

from rldyno.answers.axes import place_of, with_one_worker
from rldyno.report.charts import draw_against_axis
from rldyno.report.material import GroupPlace, Material
from rldyno.report.section import Chart, ChartRow, Panel, Section, bar, slug, spread
from rldyno.report.series import Run, RunValues
from rldyno.results.columns import INTEGRALS, column
from rldyno.results.integrals import integrals, missing
from rldyno.text.numbers import number
from rldyno.text.tables import Table

NAMES = tuple(item.name for item in INTEGRALS)
MEASURES = {name: pl.col(name) for name in NAMES}
# What contestants are compared by, drawn before liu2022's integrals.
COMPARED = ("threshold_s", "steps_per_s")
ESTIMATES = (
    "Estimates over seeds; bars are their 95 % intervals, dashed bars the range of runs that are too few for "
    "an interval. Hollow points are shown but not ranked."
)
QUARTILES = "Medians over seeds; bars lie between the quartiles."
AXIS_TITLES = {"cores": "CPU cores", "workers": "workers"}


def integrals_of(run: Run) -> dict[str, float | None]:
    percent = run.samples["machine_cpu_percent"], run.samples["machine_memory_percent"]
    time_s = run.samples["time_ns"] / 1e9
    return dict(integrals(run.episodes["return"], time_s, *percent, run.wall_s, run.steps))


RUN_VALUES = RunValues(
    NAMES,
    integrals_of,
    episodes=("return",),
    samples=("time_ns", "machine_cpu_percent", "machine_memory_percent"),
)


@dataclass(frozen=True)
class Family:
    """Comparisons that differ in one axis only."""

    axis: str
    label: str
    members: tuple[GroupPlace, ...]
    """By rising value of the axis."""

    @property
    def axis_title(self) -> str:
        if self.axis == "workers" and self.members[-1].group.axes["device"] != "cpu":
            shared = self.members[-1].group.trials["share_gpu"].any()
            return "workers, on one GPU" if shared else "GPUs, one per worker"
        return AXIS_TITLES.get(self.axis, self.axis.removeprefix("hyper."))


def charts(material: Material) -> list[Panel]:
    summaries = {place.id: place.summary(MEASURES) for place in material.places}
    found = []
    for index, family in enumerate(families(material.places)):
        drawn = tuple(family_charts(family, summaries))
        if drawn:
            label = f"{family.label}: against {family.axis_title}"
            found.append(Panel(f"axis-{index}", label, drawn))
    return found


def family_charts(family: Family, summaries: dict[str, pl.DataFrame]) -> Iterator[Chart]:
    """A measure of every contestant at every value of the axis."""
    for name in COMPARED:
        yield from axis_chart(family, name, estimate_rows(family, name), ESTIMATES, "95 % interval")
    for name in MEASURES:
        rows = [
            {
                "contestant": row["contestant"],
                "x": place.group.axes[family.axis],
                **spread(row, name, "y", column(name).scale),
            }
            for place in family.members
            for row in summaries[place.id].iter_rows(named=True)
            if row[f"{name} middle"] is not None
        ]
        yield from axis_chart(family, name, rows, QUARTILES, "quartiles")


def axis_chart(
    family: Family, name: str, rows: Sequence[ChartRow], caption: str, bars: str
) -> Iterator[Chart]:
    """One chart, or none without rows."""
    if rows:
        shown = column(name)
        draw = partial(draw_against_axis, x_title=family.axis_title, y_title=shown.unit, spread=bars)
        chart_id = f"{slug(family.axis_title)}-{slug(name)}"
        yield Chart(chart_id, f"{shown.heading} by {family.axis_title}", caption, draw, rows)


def estimate_rows(family: Family, name: str) -> list[dict[str, Any]]:
    """Of contestants that have a finite estimate."""
    scale = column(name).scale
    rows = []
    for place in family.members:
        for row in place.group.rows:
            figure = row.figures.get(name)
            if figure is None or not math.isfinite(figure.estimate.point):
                continue
            rows.append(
                {
                    "contestant": row.contestant,
                    "x": place.group.axes[family.axis],
                    "ranked": row.unranked is None and not place.group.trust.barred,
                    **bar(figure.estimate.scaled(scale), "y"),
                }
            )
    return rows


def families(places: Sequence[GroupPlace]) -> list[Family]:
    """One per numeric axis that varies and setting of all the others."""
    if not places:
        return []
    items = [(place.group.axes, place) for place in places]
    first = places[0].group.axes
    found = []
    for axis in ("cores", "workers", *(name for name in first if name.startswith("hyper."))):
        alike: dict[tuple[Any, ...], list[GroupPlace]] = {}
        for axes, place in with_one_worker(items) if axis == "workers" else items:
            if isinstance(axes[axis], int | float):
                rest = tuple(value for name, value in axes.items() if name != axis)
                alike.setdefault(rest, []).append(place)
        for members in alike.values():
            if len(members) > 1:
                ordered = sorted(members, key=lambda place: place.group.axes[axis])
                # One worker, the first, has no collective.
                found.append(Family(axis, place_of(ordered[-1].group, axis), tuple(ordered)))
    return found


def tables(material: Material) -> list[Table]:
    """Medians over seeds, by contestant and comparison: a study need not vary an axis to have them."""
    rows: list[tuple[str, ...]] = []
    for place in material.places:
        done = place.group.trials.join(place.series.values.select("trial", *NAMES), on="trial", how="inner")
        for row in place.group.rows:
            runs = done.filter(pl.col("contestant") == row.contestant)
            if len(runs):
                values = [median(runs[name]) for name in NAMES]
                steps = median(runs["steps"], places=0)
                rows.append((row.contestant, place.group.label, steps, *values, why_missing(runs)))
    if not rows:
        return []
    columns = ("Contestant", "Comparison", "Steps", *(f"{item.heading}, {item.unit}" for item in INTEGRALS))
    if any(why for *_, why in rows):
        columns = (*columns, "Why a value is missing")
    else:
        rows = [row[:-1] for row in rows]
    return [Table("integrals-of-runs", "Integrals over runs and values per step", columns, tuple(rows))]


def median(values: pl.Series, places: int | None = None) -> str:
    middle = values.cast(pl.Float64).median()
    return number(middle, places) if isinstance(middle, float) else "–"


def why_missing(runs: pl.DataFrame) -> str:
    """The most frequent reason, and how many runs miss values."""
    found = (missing(row, row["wall_s"], row["steps"]).values() for row in runs.iter_rows(named=True))
    reasons = ["; ".join(dict.fromkeys(several)) for several in found if several]
    if not reasons:
        return ""
    share = f" ({len(reasons)} of {len(runs)} runs)" if len(reasons) < len(runs) else ""
    return Counter(reasons).most_common(1)[0][0] + share


SECTION = Section(
    id="scaling",
    order=80,
    title="Integrals and scaling",
    about="whole runs against cores, workers, GPUs and hyper-parameters; integrals as in liu2022",
    short="Scaling",
    charts=charts,
    tables=tables,
    run_values=(RUN_VALUES,),
    legend=True,
)
