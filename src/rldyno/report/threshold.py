"""How long learning took in every measure: environment steps, episodes, training alone, start-up included."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from rldyno.answers.groups import THRESHOLD, Group, Row
from rldyno.answers.table import SEED
from rldyno.stats.bootstrap import Estimate, Floats, Resampler, estimate_of
from rldyno.stats.censored import survival_median
from rldyno.text.numbers import count, number, span
from rldyno.text.tables import Table

COLUMNS = ("Contestant", "Comparison", "Reached", "Steps", "Episodes", "Training, s", "With start-up, s")


def threshold_table(groups: Sequence[Group]) -> Table | None:
    """Of the comparisons that have a threshold; medians with 95 % intervals, runs that missed it censored."""
    resampler = Resampler(np.random.default_rng(SEED))
    rows = tuple(
        threshold_row(group, row, resampler)
        for group in groups
        if group.stop_return is not None
        for row in group.rows
        if row.done
    )
    if not rows:
        return None
    return Table("to-threshold", "To the threshold: medians with 95 % intervals", COLUMNS, rows)


def threshold_row(group: Group, row: Row, resampler: Resampler) -> tuple[str, ...]:
    done = group.runs[row.contestant]
    figure = row.figures.get(THRESHOLD.name)
    return (
        row.contestant,
        group.label,
        f"{row.reached} of {row.done}",
        counted(median(done.steps_to_threshold(), resampler)),
        counted(median(done.episodes_to_threshold(), resampler)),
        timed(median(done.training_to_threshold(), resampler)),
        timed(None if figure is None else figure.estimate),
    )


def median(runs: Floats, resampler: Resampler) -> Estimate | None:
    """Of rows (amount, reached)."""
    return estimate_of(resampler.sample(runs, survival_median)) if len(runs) else None


def counted(estimate: Estimate | None) -> str:
    if estimate is None or math.isinf(estimate.point):
        return missing(estimate)
    if estimate.low is None or estimate.high is None:
        return count(estimate.point)
    return f"{count(estimate.point)} ({count(estimate.low)}–{count(estimate.high)})"


def timed(estimate: Estimate | None) -> str:
    if estimate is None or math.isinf(estimate.point):
        return missing(estimate)
    ends = span(estimate)
    return f"{number(estimate.point)} ({ends})" if ends else number(estimate.point)


def missing(estimate: Estimate | None) -> str:
    return "–" if estimate is None else "not reached by half"
