"""Run lengths at which one contestant overtakes another: a slow start against a fast stride."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from rldyno.answers.numbers import bounds, number
from rldyno.answers.runs import Runs
from rldyno.stats.bootstrap import Estimate, Floats, interquartile_mean, percentile_interval, resampled


@dataclass(frozen=True)
class BreakEven:
    """`then` is done sooner than `first` in runs longer than `steps`, which may be bounded by infinity."""

    first: str
    then: str
    steps: Estimate

    @property
    def words(self) -> str:
        ends = bounds(self.steps)
        spread = f" [{ends[0]}, {ends[1]}]" if ends else ""
        return f"`{self.then}` overtakes `{self.first}` after {number(self.steps.point)} steps{spread}"


def costs(done: Runs) -> Floats:
    """One row (start-up in s, s per step) per run."""
    startup_s, speed = done["startup_s"], done["steps_per_s"]
    known = ~np.isnan(startup_s) & (speed > 0)
    return np.stack([startup_s[known], 1 / speed[known]], axis=-1)


def typical(runs: Floats) -> Floats:
    """Interquartile means of `[..., run, (start-up, per step)]`."""
    return np.asarray(np.stack([interquartile_mean(runs[..., 0]), interquartile_mean(runs[..., 1])], axis=-1))


def break_even(
    first: str, first_runs: Floats, then: str, then_runs: Floats, rng: np.random.Generator
) -> BreakEven | None:
    """N = (start-up of then − of first) / (seconds per step of first − of then).

    None unless `first` starts sooner and `then` is faster per step.
    """
    point = crossing(typical(first_runs), typical(then_runs))
    if not 0 < float(point) < np.inf:
        return None
    n = min(len(first_runs), len(then_runs))
    if n < 2:
        return BreakEven(first, then, Estimate(float(point), None, None, n))
    draws = crossing(resampled(first_runs, rng, typical), resampled(then_runs, rng, typical))
    low, high = percentile_interval(draws, len(first_runs) + len(then_runs) - 2)
    return BreakEven(first, then, Estimate(float(point), low, high, n))


def crossing(first: Floats, then: Floats) -> Floats:
    """Steps to the break-even: 0 where `then` is ahead from the start, ∞ where it never gets ahead."""
    late_start, saved = then[..., 0] - first[..., 0], first[..., 1] - then[..., 1]
    with np.errstate(divide="ignore", invalid="ignore"):
        steps = late_start / saved
    never = (saved <= 0) & (late_start >= 0)
    return np.asarray(np.where(never, np.inf, np.where(late_start <= 0, 0.0, steps)))


def overtakings(runs: Mapping[str, Floats], rng: np.random.Generator) -> tuple[BreakEven, ...]:
    """Who is done first in the shortest runs, who overtakes it, and so on to the longest runs."""
    known = {name: values for name, values in runs.items() if len(values)}
    if len(known) < 2:
        return ()
    middle = {name: typical(values) for name, values in known.items()}
    current = min(known, key=lambda name: (float(middle[name][0]), float(middle[name][1])))
    found: list[BreakEven] = []
    while True:
        faster = {
            name: float(crossing(middle[current], cost))
            for name, cost in middle.items()
            if float(cost[1]) < float(middle[current][1])
        }
        if not faster:
            return tuple(found)
        after = min(faster, key=lambda name: (faster[name], float(middle[name][1])))
        step = break_even(current, known[current], after, known[after], rng)
        if step is not None:
            found.append(step)
        current = after
