"""Why one contestant is faster than another: the difference of their steps, split exactly into phases."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from rldyno.answers.comparison import with_ratios
from rldyno.answers.groups import CERTIFICATE_WORDS, THROUGHPUT, Group, Row, badness
from rldyno.answers.runs import Runs
from rldyno.answers.trust import Trust, trust_of
from rldyno.results.load import Results
from rldyno.stats.estimates import Estimate, point_of, ratio_estimate
from rldyno.stats.moments import Floats
from rldyno.stats.split import Drawn, Weights, gap, shares_of_sum, two_factors
from rldyno_rig import schema

NOT_SPLIT = "not split"
"""Time of the loop that the record books on no phase."""
PHASES = (*schema.FRAMEWORK_PHASES, *schema.SHARED_PHASES, schema.COMMUNICATE, NOT_SPLIT)
CALLS = {
    "environment": "calls_environment",
    "act": "calls_act",
    "transfer": "calls_transfer",
    "update": "updates",
    "read": "calls_read",
    schema.COMMUNICATE: "reductions",
}
"""Phase → the column that counts its calls; `store` and `other` are what lies between calls."""
COUNTERS = ("instructions", "cycles", "cache_references", "cache_misses")
# Of the loop: what is less is rounding of the clock.
LEAST_SHARE = 1e-6


@dataclass(frozen=True)
class PhaseCost:
    """A phase of one contestant's step."""

    us: float
    calls: float | None
    """Per step; None where they are not counted."""

    @property
    def us_per_call(self) -> float | None:
        return self.us / self.calls if self.calls else None


@dataclass(frozen=True)
class PhaseGap:
    """A phase of the slower one's step against the faster one's, in microseconds per step."""

    difference: Estimate
    share: Estimate
    """Of the whole difference; below 0 where the slower one is the faster one in this phase."""
    by_calls: Estimate | None
    """The part of the difference that comes from the number of calls; None where they are not counted."""
    by_cost: Estimate | None
    """From what one call costs."""


@dataclass(frozen=True)
class Phase:
    name: str
    fast: PhaseCost
    slow: PhaseCost
    gap: PhaseGap


@dataclass(frozen=True)
class Split:
    """Two steps and their difference, phase by phase, the largest share of the difference first."""

    phases: tuple[Phase, ...]
    difference: Estimate
    ratio: Estimate | None
    """How many times as long a step of the slower one takes."""
    fast_us: float
    slow_us: float


@dataclass(frozen=True)
class Counter:
    """A hardware counter per step of the whole trial, start-up included."""

    name: str
    fast: float
    slow: float
    ratio: Estimate | None
    """How many times as many the slower one has."""


@dataclass(frozen=True)
class Why:
    """Two contestants of one comparison; `fast` is the faster one, or the one named first if barred."""

    group: Group
    fast: str
    slow: str
    trust: Trust
    split: Split
    counters: tuple[Counter, ...]
    no_counters: str
    """Why there are none; empty where there are."""
    unproven: tuple[tuple[str, str], ...]
    """(contestant, what its certificate lacks)."""
    uncounted: str
    """Why calls are not known; empty where they are."""

    @property
    def said(self) -> bool:
        """Whether a ratio and shares may be named."""
        return not self.trust.barred and not self.trust.tied


def why(results: Results, group: Group, first: str, second: str) -> Why | None:
    """None where one of them has no finished run with phases."""
    pair = pair_of(results, group, (first, second))
    trust = trust_of(results, pair, THROUGHPUT)
    names = [first, second]
    if not trust.barred:
        names.sort(key=lambda name: badness(row_of(pair, name), THROUGHPUT))
    fast, slow = (group.runs[name] for name in names)
    split = split_of(fast, slow, results.manifest.adaptive is not None)
    if split is None:
        return None
    if not trust.barred:
        split = replace(split, ratio=row_of(pair, names[1]).figures[THROUGHPUT.name].ratio)
    counters = () if trust.barred else counters_of(fast, slow)
    trials = [*fast.trials, *slow.trials]
    return Why(
        group=group,
        fast=names[0],
        slow=names[1],
        trust=trust,
        split=split,
        counters=counters,
        no_counters="" if counters else results.why_empty(COUNTERS[0], trials) or "",
        unproven=tuple(
            (row.contestant, CERTIFICATE_WORDS[row.certificate]) for row in pair.rows if not row.certified
        ),
        uncounted=results.why_empty(CALLS["act"], trials) or "",
    )


def pair_of(results: Results, group: Group, names: Sequence[str]) -> Group:
    """These two by speed; chance stays corrected over all pairs of the group, from which they were chosen."""
    rows = with_ratios(group, THROUGHPUT, results.manifest.adaptive, among=names)
    return replace(
        group,
        rows=tuple(row for row in rows if row.contestant in names),
        trials=group.trials.filter(pl.col("contestant").is_in(list(names))),
        runs={name: group.runs[name] for name in names},
    )


def row_of(group: Group, contestant: str) -> Row:
    return next(row for row in group.rows if row.contestant == contestant)


def split_of(fast: Runs, slow: Runs, adaptive: bool = False) -> Split | None:
    """`adaptive`: seeds were added while comparisons were open, so runs are paired by seed.

    None where one of them has no run with phases.
    """
    spent = [times_of(runs) for runs in (fast, slow)]
    used = [index for index in range(len(PHASES)) if any(len(us) and us[:, index].any() for us in spent)]
    kept = [runs.only(us.sum(axis=1) > 0) for runs, us in zip((fast, slow), spent, strict=True)]
    if not used or not all(map(len, kept)):
        return None
    weights = weights_of(kept[0], kept[1], adaptive)
    fast_step, slow_step = (
        one.step(times_of(runs)[:, used]) for one, runs in zip(weights, kept, strict=True)
    )
    difference = gap(slow_step, fast_step)
    shares = shares_of_sum(difference) if difference.point.sum() else difference
    fast_calls, slow_calls = (
        one.mean(calls_of(runs)[:, used]) for one, runs in zip(weights, kept, strict=True)
    )
    factors = two_factors(slow_step, slow_calls, fast_step, fast_calls)
    phases = [
        Phase(PHASES[phase], *costs, PhaseGap(*found))
        for phase, costs, found in zip(
            used,
            zip(phase_costs(fast_step, fast_calls), phase_costs(slow_step, slow_calls), strict=True),
            gaps_of(difference, shares, factors, fast_calls.point * slow_calls.point),
            strict=True,
        )
    ]
    whole = Drawn(
        difference.point.sum(keepdims=True), difference.draws.sum(axis=1, keepdims=True), difference.runs
    )
    return Split(
        phases=tuple(sorted(phases, key=lambda phase: -phase.gap.share.point)),
        difference=whole.estimates()[0],
        ratio=ratio_estimate(kept[1].known("step_s"), kept[0].known("step_s")),
        fast_us=float(fast_step.point.sum()),
        slow_us=float(slow_step.point.sum()),
    )


def phase_costs(step: Drawn, calls: Drawn) -> list[PhaseCost]:
    return [
        PhaseCost(float(us), None if math.isnan(count) else float(count))
        for us, count in zip(step.point, calls.point, strict=True)
    ]


def gaps_of(
    difference: Drawn, shares: Drawn, factors: tuple[Drawn, Drawn], counted: Floats
) -> list[tuple[Estimate, Estimate, Estimate | None, Estimate | None]]:
    """`counted`: above 0 for a phase whose calls are known and happen."""
    by_calls, by_cost = (found.estimates() for found in factors)
    return [
        (one, share, *((calls, cost) if known > 0 else (None, None)))
        for one, share, calls, cost, known in zip(
            difference.estimates(), shares.estimates(), by_calls, by_cost, counted, strict=True
        )
    ]


def weights_of(fast: Runs, slow: Runs, adaptive: bool) -> tuple[Weights, Weights]:
    if min(len(fast), len(slow)) < 2:
        return Weights.without_draws(len(fast)), Weights.without_draws(len(slow))
    rng = np.random.default_rng(0)
    first = Weights.of(len(fast), rng, any_time=adaptive)
    if adaptive and fast["seed"].tolist() == slow["seed"].tolist():
        return first, first
    return first, Weights.of(len(slow), rng, any_time=adaptive)


def times_of(runs: Runs) -> Floats:
    """[run, phase of PHASES]: microseconds per step; all 0 where the record does not have them."""
    known = [np.nan_to_num(runs[f"phase_{phase}_s"]) for phase in PHASES[:-1]]
    rest = np.nan_to_num(runs["train_s"]) - np.sum(known, axis=0)
    rest[rest <= LEAST_SHARE * np.nan_to_num(runs["train_s"])] = 0
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.column_stack([*known, rest]) * 1e6 / runs["steps"][:, None]
    return np.where(np.isfinite(found).all(axis=1, keepdims=True), found, 0.0)


def calls_of(runs: Runs) -> Floats:
    """[run, phase of PHASES]: calls per step; NaN where they are not counted."""
    uncounted = np.full(len(runs), math.nan)
    counted = [runs[CALLS[phase]] if phase in CALLS else uncounted for phase in PHASES]
    return np.column_stack(counted) / runs["steps"][:, None]


def counters_of(fast: Runs, slow: Runs) -> tuple[Counter, ...]:
    found = []
    for name in COUNTERS:
        values = [runs[name] / runs["steps"] for runs in (fast, slow)]
        known = [one[np.isfinite(one) & (one > 0)] for one in values]
        if all(map(len, known)):
            low, high = map(point_of, known)
            found.append(Counter(name, low, high, ratio_estimate(known[1], known[0])))
    return tuple(found)
