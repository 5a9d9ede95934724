"""Return against steps, episodes and time; what it took to reach the threshold."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from rldyno.answers.groups import THRESHOLD, Group, Row
from rldyno.report.material import Material
from rldyno.report.section import Section
from rldyno.report.series import Curve, Points, Run, band
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
    )


CURVES = (
    learning_curve("learning-steps", "step", "environment steps", "Mean return against steps"),
    learning_curve("learning-episodes", "episode", "episodes", "Mean return against episodes"),
    learning_curve(
        "learning-time", "time_s", "seconds since start, start-up included", "Mean return against time"
    ),
)


def charts(material: Material) -> Any:
    return material.panels(lambda place: [place.bands(curve) for curve in CURVES])


def tables(material: Material) -> list[Table]:
    return threshold_tables(material.groups)


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
    about="return against steps, episodes and time; what it took to reach the threshold",
    charts=charts,
    tables=tables,
    curves=CURVES,
    shown=lambda _: True,
    legend=True,
)
