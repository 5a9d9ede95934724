"""Run lengths at which one contestant overtakes another: a slow start against a high speed."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rldyno.answers.runs import Runs
from rldyno.stats.estimates import Estimate, Sampler, draws_interval, point_of
from rldyno.stats.moments import Floats
from rldyno.text.numbers import count
from rldyno_rig.contestant import Contestant

# The same results give the same intervals.
SEED = 20_260_101
STARTUP, FILLING, FILLING_STEPS, PER_STEP, PER_UPDATE = range(5)
"""Columns of costs: seconds of start-up; seconds and steps before learning; seconds per step, per update."""


@dataclass(frozen=True)
class RunCosts:
    """What runs of a contestant cost: the figures over its runs, and draws of what they may be."""

    contestant: str
    costs: Floats
    draws: Floats | None
    """[draw, column]; None for a single run."""
    n: int
    updates_counted: bool

    @property
    def framework(self) -> str:
        return Contestant.parse(self.contestant).framework

    def seconds(self, steps: float) -> float:
        """Of a run of so many steps, start-up included."""
        return float(seconds(self.costs, steps))


@dataclass(frozen=True)
class BreakEven:
    """`then` finishes before `first` in runs longer than `steps`: 0 means all of them, infinity none."""

    first: str
    then: str
    steps: Estimate
    updates: Estimate | None = None
    """The same length in gradient updates; None where they were not counted."""

    @property
    def never(self) -> bool:
        return math.isinf(self.steps.point)

    @property
    def open(self) -> bool:
        """Whether the runs leave open that it happens at all, or that it does not."""
        low, point, high = self.steps.low, self.steps.point, self.steps.high
        if low is None or high is None:
            return False
        return high > 0 if point == 0 else math.isfinite(low) if math.isinf(point) else math.isinf(high)

    @property
    def crosses(self) -> bool:
        return self.steps.point > 0 and not self.never

    @property
    def words(self) -> str:
        """`torch:compile overtakes torch:eager after 98,000 steps [61,000, 150,000] or 24,000 updates`."""
        if self.steps.point == 0:
            doubt = ", but that may be chance" if self.open else ""
            return f"`{self.then}` finishes before `{self.first}` in runs of any length{doubt}"
        if self.open and self.never:
            earliest = count(self.steps.low or 0)
            return (
                f"whether `{self.then}` ever overtakes `{self.first}` is not clear "
                f"(after {earliest} steps at the earliest)"
            )
        if self.never:
            return f"`{self.then}` never overtakes `{self.first}`"
        lengths = [length_words(self.steps, "steps")]
        lengths += [length_words(self.updates, "updates")] if self.updates is not None else []
        does = "may overtake" if self.open else "overtakes"
        return f"`{self.then}` {does} `{self.first}` after {' or '.join(lengths)}"


@dataclass(frozen=True)
class RunLengths:
    """Who finishes first, by the length of a run."""

    shortest: str
    """In the shortest runs."""
    crossovers: tuple[BreakEven, ...]
    """Who overtakes it, and so on to the longest runs."""
    modes: tuple[BreakEven, ...]
    """The other pairs of modes of one framework."""
    rivals: tuple[BreakEven, ...] = ()
    """Without crossovers: who may overtake it all the same."""

    @property
    def words(self) -> str:
        if self.crossovers:
            said = [
                f"`{self.shortest}` finishes first in the shortest runs",
                *(crossover.words for crossover in self.crossovers),
            ]
        else:
            said = [f"`{self.shortest}` finishes first in runs of any length"]
        others = dict.fromkeys([*self.rivals, *self.modes])
        return "; ".join([*said, *(crossover.words for crossover in others)]) + "."


def length_words(length: Estimate, unit: str) -> str:
    if length.low is None or length.high is None:
        return f"{count(length.point)} {unit}"
    return f"{count(length.point)} {unit} [{count(length.low)}, {count(length.high)}]"


def run_costs(runs: Mapping[str, Runs]) -> list[RunCosts]:
    """Of every contestant that has a run which learned."""
    rng = np.random.default_rng(SEED)
    found = ((name, cost_rows(done)) for name, done in runs.items())
    return [costs_of(name, rows, rng) for name, rows in found if len(rows)]


def cost_rows(done: Runs) -> Floats:
    """One row per run that made an update; one that only filled its memory says nothing of learning."""
    rows = costs_by_run(done)
    return np.asarray(rows[~np.isnan(rows).all(axis=-1)])


def costs_by_run(done: Runs) -> Floats:
    """One row per run, of NaN where its costs are not known.

    Records without the start of learning count as if it began with the first step.
    """
    steps, updates = done["steps"], done["updates"]
    filling, filling_steps = (np.nan_to_num(done[f"learning_start_{unit}"]) for unit in ("s", "steps"))
    learning, learning_steps = done["train_s"] - filling, steps - filling_steps
    with np.errstate(divide="ignore", invalid="ignore"):
        rows = np.stack(
            [done["startup_s"], filling, filling_steps, learning / learning_steps, learning / updates], -1
        )
    known = ~np.isnan(done["startup_s"]) & (learning > 0) & (learning_steps > 0) & (updates != 0)
    rows[~known] = math.nan
    return np.asarray(rows)


def seconds(costs: Floats, steps: float) -> Floats:
    """Of runs of so many steps, start-up included, from `[..., cost]`."""
    startup, filling, filling_steps, per_step = (
        costs[..., column] for column in (STARTUP, FILLING, FILLING_STEPS, PER_STEP)
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        while_filling = filling * steps / filling_steps
    learning = filling + (steps - filling_steps) * per_step
    return np.asarray(startup + np.where(steps < filling_steps, while_filling, learning))


def costs_of(contestant: str, rows: Floats, rng: np.random.Generator) -> RunCosts:
    """All columns share one sampler: a run that starts slowly may also learn slowly."""
    counted = bool(np.isfinite(rows[:, PER_UPDATE]).all())
    if not counted:
        rows = np.where(np.arange(rows.shape[1]) == PER_UPDATE, np.nan, rows)
    sampler = Sampler(rng)
    costs = np.array([point_of(column) for column in rows.T])
    draws = np.stack([sampler.draws(column) for column in rows.T], -1) if len(rows) > 1 else None
    return RunCosts(contestant, costs, draws, len(rows), counted)


def break_even(first: RunCosts, then: RunCosts) -> BreakEven:
    n = min(first.n, then.n)

    def length(unit: int) -> Estimate:
        point = float(crossing(first.costs, then.costs, unit))
        if first.draws is None or then.draws is None:
            return Estimate(point, None, None, n)
        draws = crossing(first.draws, then.draws, unit)
        return Estimate(point, *draws_interval(draws), n)

    counted = first.updates_counted and then.updates_counted
    updates = length(PER_UPDATE) if counted else None
    return BreakEven(first.contestant, then.contestant, length(PER_STEP), updates)


def crossing(first: Floats, then: Floats, unit: int = PER_STEP) -> Floats:
    """Steps (or updates) to the break-even: 0 where `then` leads from the start, ∞ where it falls behind.

    While learning, N = (how much later `then` begins to learn) / (seconds per step of first − of then).
    """
    late = then[..., STARTUP] - first[..., STARTUP]
    late_learning = late + then[..., FILLING] - first[..., FILLING]
    saved = first[..., unit] - then[..., unit]
    learns_at = first[..., FILLING_STEPS] if unit == PER_STEP else np.zeros_like(saved)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        while_learning = learns_at + late_learning / saved
        while_filling = learns_at * late / (late - late_learning)
    ahead = late_learning <= 0
    before = np.where(late <= 0, 0.0, while_filling)
    never = (saved < 0) | ((saved == 0) & ~ahead)
    return np.asarray(np.where(never, np.inf, np.where(ahead, before, while_learning)))


def crossovers(found: Sequence[RunCosts]) -> tuple[BreakEven, ...]:
    """Who finishes first in the shortest runs, who overtakes it, and so on to the longest runs."""
    in_order = sorted(found, key=starting_order)[:1]
    while faster := [item for item in found if item.costs[PER_STEP] < in_order[-1].costs[PER_STEP]]:
        lengths = [(float(crossing(in_order[-1].costs, item.costs)), item.costs[PER_STEP]) for item in faster]
        in_order.append(faster[lengths.index(min(lengths))])
    lengths_of_pairs = (break_even(first, then) for first, then in itertools.pairwise(in_order))
    return tuple(length for length in lengths_of_pairs if length.crosses)


def starting_order(item: RunCosts) -> tuple[float, float]:
    return float(item.costs[STARTUP]), float(item.costs[PER_STEP])


def pairwise(found: Sequence[RunCosts]) -> tuple[BreakEven, ...]:
    """Every pair; modes of one framework come first, and pairs that cross before those that do not."""
    pairs = itertools.combinations(sorted(found, key=starting_order), 2)
    lengths = [(first.framework != then.framework, break_even(first, then)) for first, then in pairs]
    return tuple(length for _, length in sorted(lengths, key=lambda item: (item[0], not item[1].crosses)))


def run_lengths(found: Sequence[RunCosts]) -> RunLengths | None:
    """None with fewer than two to compare."""
    if len(found) < 2:
        return None
    chain, in_order = crossovers(found), sorted(found, key=starting_order)
    modes = (
        crossover
        for framework in dict.fromkeys(item.framework for item in in_order)
        for crossover in pairwise([item for item in in_order if item.framework == framework])
    )
    rivals = () if chain else (break_even(in_order[0], other) for other in in_order[1:])
    return RunLengths(
        shortest=chain[0].first if chain else in_order[0].contestant,
        crossovers=chain,
        modes=tuple(crossover for crossover in modes if crossover not in chain),
        rivals=tuple(rival for rival in rivals if rival.open),
    )
