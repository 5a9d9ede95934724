"""Run lengths at which one contestant overtakes another: a slow start against a fast stride."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from rldyno.answers.numbers import count
from rldyno.answers.runs import Runs
from rldyno.stats.bootstrap import Estimate, Floats, interquartile_mean, percentile_interval, resampled

STARTUP, PER_STEP, PER_UPDATE = range(3)


@dataclass(frozen=True)
class BreakEven:
    """`then` is done sooner than `first` in runs longer than `steps`, which may be bounded by infinity."""

    first: str
    then: str
    steps: Estimate
    updates: Estimate | None = None
    """The same length in gradient updates; None where they were not counted."""

    @property
    def words(self) -> str:
        """`torch:compile overtakes torch:eager after 98,000 steps [61,000, 150,000] or 24,000 updates`."""
        lengths = [length_words(self.steps, "steps")]
        lengths += [length_words(self.updates, "updates")] if self.updates is not None else []
        return f"`{self.then}` overtakes `{self.first}` after {' or '.join(lengths)}"


def length_words(length: Estimate, unit: str) -> str:
    if length.low is None or length.high is None:
        return f"{count(length.point)} {unit}"
    return f"{count(length.point)} {unit} [{count(length.low)}, {count(length.high)}]"


def costs(done: Runs) -> Floats:
    """One row (start-up in s, s per step, s per update) per run."""
    startup_s, speed, updates = done["startup_s"], done["steps_per_s"], done["updates_per_s"]
    known = ~np.isnan(startup_s) & (speed > 0)
    with np.errstate(divide="ignore"):
        return np.stack([startup_s[known], 1 / speed[known], 1 / updates[known]], axis=-1)


def typical(runs: Floats) -> Floats:
    """Interquartile means of each column of `[..., run, column]`."""
    return interquartile_mean(np.moveaxis(runs, -1, -2))


def break_even(
    first: str, first_runs: Floats, then: str, then_runs: Floats, rng: np.random.Generator
) -> BreakEven | None:
    """N = (start-up of then − of first) / (seconds per step of first − of then); also per update.

    None unless `first` starts sooner and `then` is faster per step.
    """
    sides = typical(first_runs), typical(then_runs)
    if not 0 < float(crossing(*sides)) < np.inf:
        return None
    n = min(len(first_runs), len(then_runs))
    draws = (resampled(first_runs, rng, typical), resampled(then_runs, rng, typical)) if n > 1 else None

    def length(unit: int) -> Estimate:
        point = float(crossing(*sides, unit))
        if draws is None:
            return Estimate(point, None, None, n)
        low, high = percentile_interval(crossing(*draws, unit), len(first_runs) + len(then_runs) - 2)
        return Estimate(point, low, high, n)

    counted = all(len(side) > PER_UPDATE and np.isfinite(side).all() for side in sides)
    return BreakEven(first, then, length(PER_STEP), length(PER_UPDATE) if counted else None)


def crossing(first: Floats, then: Floats, unit: int = PER_STEP) -> Floats:
    """Steps (or updates) to the break-even: 0 where `then` leads from the start, ∞ where it never does."""
    late_start, saved = then[..., STARTUP] - first[..., STARTUP], first[..., unit] - then[..., unit]
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


def pairwise(runs: Mapping[str, Floats], rng: np.random.Generator) -> tuple[BreakEven, ...]:
    """Every pair of which the later starter is the faster runner; modes of one framework come first."""
    found = [
        turn
        for first, then in itertools.permutations(runs, 2)
        if len(runs[first])
        and len(runs[then])
        and (turn := break_even(first, runs[first], then, runs[then], rng)) is not None
    ]
    return tuple(sorted(found, key=lambda turn: framework(turn.first) != framework(turn.then)))


def framework(contestant: str) -> str:
    return contestant.partition(":")[0]
