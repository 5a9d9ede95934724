"""Return against steps, episodes and time; the area below; what it took to reach the threshold."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import polars as pl

from rldyno.answers.groups import THRESHOLD, Group, Row
from rldyno.report.charts import draw_intervals, interval_row
from rldyno.report.external import external_tables, with_curves
from rldyno.report.libraries import alt
from rldyno.report.material import GroupPlace, Material
from rldyno.report.parts import plain_axis
from rldyno.report.section import Chart, Section, slug
from rldyno.report.series import Curve, Points, Run, SharedValues, band
from rldyno.report.theme import AltairChart, Theme
from rldyno.results.columns import column
from rldyno.results.integrals import mean_height
from rldyno.stats.estimates import RANGE, Estimate, estimate_of
from rldyno.stats.moments import Floats
from rldyno.text.numbers import count, number, span
from rldyno.text.tables import Table

COLUMNS = ("Contestant", "Comparison", "Reached", "Steps", "Episodes", "Training, s", "With start-up, s")
CAPTION = (
    "Running mean over as many episodes as the stop rule uses, otherwise 100. Lines are medians over seeds, "
    "bands lie between the quartiles. A line begins where every run of the contestant has finished an "
    "episode; a run that has ended keeps its last value. The dotted line is the threshold."
)


def learning_curve(chart_id: str, x: str, x_title: str, title: str) -> Curve:
    def points(run: Run) -> Points | None:
        return None if run.learning is None else (run.learning[x], run.learning["return"])

    return Curve(
        id=chart_id,
        title=title,
        caption=CAPTION,
        x_title=x_title,
        y_title="mean return",
        points=points,
        join=band,
        episodes=("step", "time_ns", "return"),
        zero=False,
        to_threshold=True,
        external=x == "step",
    )


CURVES = (
    learning_curve("learning-steps", "step", "environment steps", "Mean return against steps"),
    learning_curve("learning-episodes", "episode", "episodes", "Mean return against episodes"),
    learning_curve(
        "learning-time", "time_s", "seconds since start, start-up included", "Mean return against time"
    ),
)


AREAS = {"area_by_steps": "step", "area_by_time": "time_s"}
"""Column → what the learning curve is drawn against."""
AREA_CAPTION = (
    "The area below the learning curve, divided by its width, which is that of the longest run of the "
    "comparison: the mean return of all its steps or seconds. A run that has ended keeps its last value. "
    "Points are estimates over seeds, lines their 95 % intervals. Hollow points are shown but not ranked."
)


def areas(runs: Sequence[Run]) -> list[dict[str, float | None]]:
    """Over the width of the longest run; a run that has ended keeps its last value, as in the charts."""
    found: list[dict[str, float | None]] = [dict.fromkeys(AREAS) for _ in runs]
    drawn = [(run.learning, row) for run, row in zip(runs, found, strict=True) if run.learning is not None]
    for name, against in AREAS.items():
        width = max((float(curve[against][-1]) for curve, _ in drawn), default=0.0)
        for curve, row in drawn if width > 0 else ():
            row[name] = mean_height(curve[against], curve["return"], width)
    return found


AREA_VALUES = SharedValues(tuple(AREAS), areas, episodes=("step", "time_ns", "return"))


def charts(material: Material) -> Any:
    def drawn(place: GroupPlace, curve: Curve) -> Chart:
        chart = place.bands(curve)
        return with_curves(chart, material.curves, place.group) if curve.external else chart

    return material.panels(
        lambda place: [
            *(drawn(place, curve) for curve in CURVES),
            *(area_chart(place, name) for name in AREAS),
        ]
    )


def area_chart(place: GroupPlace, name: str) -> Chart:
    shown = column(name)
    barred = place.group.trust.barred
    rows = [
        {"contestant": row.contestant, "order": order}
        | interval_row(estimate, row.unranked is None and not barred, shown)
        for order, (row, estimate) in enumerate(area_estimates(place, name))
    ]
    draw = partial(draw_area, x_title="mean return")
    return Chart(slug(name), shown.heading, AREA_CAPTION, draw, rows)


def draw_area(theme: Theme, title: str, x_title: str) -> AltairChart:
    axis, scale = plain_axis(tick_count=5), alt.Scale(zero=False)
    return draw_intervals(theme, title, x_title, axis, scale, at_least=None, legend=False)


def area_estimates(place: GroupPlace, name: str) -> Iterator[tuple[Row, Estimate]]:
    """Of the contestants with a run whose curve could be drawn."""
    joined = place.group.trials.select("trial", "contestant").join(place.series.values, on="trial")
    for row in place.group.rows:
        values = joined.filter(pl.col("contestant") == row.contestant)[name].drop_nulls().to_numpy()
        if len(values):
            yield row, estimate_of(values)


def tables(material: Material) -> list[Table]:
    return [
        *threshold_tables(material.groups),
        *area_tables(material),
        *external_tables(material.curves, material.groups),
    ]


def area_tables(material: Material) -> list[Table]:
    rows = []
    for place in material.places:
        by_steps, by_time = (dict(named(area_estimates(place, name))) for name in AREAS)
        for row in place.group.rows:
            if row.contestant in by_steps:
                values = (area_words(found[row.contestant]) for found in (by_steps, by_time))
                rows.append(
                    (row.contestant, place.group.label, *values, str(row.done), row.unranked or "yes")
                )
    title = "Areas under the learning curve, as mean returns with 95 % intervals"
    columns = ("Contestant", "Comparison", "By steps", "By time", "Runs", "Ranked")
    return [Table("learning-areas", title, columns, tuple(rows))] if rows else []


def area_words(estimate: Estimate) -> str:
    """Returns may be below zero: `-20.6 (-20.9 to -20.2)`."""
    ends = span(estimate, dash=" to ")
    return f"{number(estimate.point)} ({ends})" if ends else number(estimate.point)


def named(found: Iterator[tuple[Row, Estimate]]) -> Iterator[tuple[str, Estimate]]:
    return ((row.contestant, estimate) for row, estimate in found)


def threshold_tables(groups: Sequence[Group]) -> list[Table]:
    """Of the comparisons that have a threshold; what the runs typically took, with intervals."""
    rows = tuple(
        threshold_row(group, row)
        for group in groups
        if group.stop_return is not None
        for row in group.rows
        if row.done
    )
    return (
        [
            Table(
                "to-threshold",
                "To the threshold: typical runs with 95 % intervals, or ranges of too few runs",
                COLUMNS,
                rows,
            )
        ]
        if rows
        else []
    )


def threshold_row(group: Group, row: Row) -> tuple[str, ...]:
    done = group.runs[row.contestant]
    figure = row.figures.get(THRESHOLD.name)
    return (
        row.contestant,
        group.label,
        f"{row.reached} of {row.done}",
        count_words(typical(done.steps_to_threshold())),
        count_words(typical(done.episodes_to_threshold())),
        time_words(typical(done.training_to_threshold())),
        time_words(None if figure is None else figure.estimate),
    )


def typical(runs: Floats) -> Estimate | None:
    """Of rows (amount, reached)."""
    return estimate_of(runs) if len(runs) else None


def count_words(estimate: Estimate | None) -> str:
    if estimate is None or math.isinf(estimate.point):
        return missing(estimate)
    if estimate.low is None or estimate.high is None:
        return count(estimate.point)
    prefix = "range " if estimate.kind == RANGE else ""
    return f"{count(estimate.point)} ({prefix}{count(estimate.low)}–{count(estimate.high)})"


def time_words(estimate: Estimate | None) -> str:
    if estimate is None or math.isinf(estimate.point):
        return missing(estimate)
    ends = span(estimate)
    return f"{number(estimate.point)} ({ends})" if ends else number(estimate.point)


def missing(estimate: Estimate | None) -> str:
    return "–" if estimate is None else "not reached by half"


SECTION = Section(
    id="learning",
    order=50,
    title="Learning",
    about="return against steps, episodes and time, and the area below; what it took to reach the threshold",
    charts=charts,
    tables=tables,
    curves=CURVES,
    run_values=(AREA_VALUES,),
    shown=lambda _: True,
    legend=True,
)
