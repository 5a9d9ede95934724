"""Pairs of contestants: which differences are real, with fixed seeds and with seeds added when needed."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rldyno.answers.runs import Runs
from rldyno.records.interim import PairResult
from rldyno.stats import anytime
from rldyno.stats.anytime import MOST_SEEDS, Gaps
from rldyno.stats.distributions import ALPHA
from rldyno.stats.estimates import log_values, point_of
from rldyno.stats.forecast import decided_by, seeds_to_decide
from rldyno.stats.moments import Floats, Moments, difference
from rldyno.stats.power import runs_to_detect
from rldyno.stats.significance import holm

DIFFERENT, EQUAL, OPEN, UNREACHED = "different", "equal", "open", "unreached"
RESOLVED, WINNER = "resolved", "winner"


Seeded = Mapping[int, tuple[float, bool]]
"""Seed → (value, whether it was reached): the runs of one contestant, in the order of the seeds."""


@dataclass(frozen=True)
class Scale:
    """How values compare."""

    more_is_better: bool
    censorable: bool
    """Times to a threshold, which a run may fail to reach."""
    within: float
    """Ratios up to 1 + this count as equal."""


def compare_pairs(
    runs: Mapping[str, Seeded], scale: Scale, family: int | None = None, most: int | None = None
) -> dict[frozenset[str], PairResult]:
    """Every pair. `family`: contestants of the group, where some of them cannot be compared.

    `most`: seeds that the study allows; None where no forecast of open pairs is wanted.
    """
    pairs = list(itertools.combinations(runs, 2))
    contestants = len(runs) if family is None else family
    size = max(1, contestants * (contestants - 1) // 2)
    gaps = {pair: gaps_of(runs[pair[0]], runs[pair[1]], scale) for pair in pairs}
    raw = [anytime.chance(gaps[pair], censorable=scale.censorable) for pair in pairs]
    # Pairs that cannot be compared yet belong to the family all the same.
    corrected = holm([*raw, *[1.0] * (size - len(pairs))])
    # Holm asks the next of the open pairs for no more than this.
    error = ALPHA / max(1, sum(chance > ALPHA for chance in corrected))
    return {
        frozenset(pair): pair_result(
            pair,
            PairGaps(gaps[pair], times_worse(runs[pair[0]], runs[pair[1]], scale), scale),
            chance,
            Errors(error, ALPHA / size),
            most,
        )
        for pair, chance in zip(pairs, corrected, strict=False)
    }


def seeded(done: Runs, column: str | None) -> Seeded:
    """One metric of some runs by seed; without a column, the time to the threshold."""
    if column is None:
        values, reached = done.seconds_watched().T
    else:
        reached, values = np.ones(len(done)), done[column]
    known = ~np.isnan(reached) & ~np.isnan(values)
    rows = zip(done["seed"][known], values[known], reached[known], strict=True)
    return {int(seed): (float(value), bool(got_there)) for seed, value, got_there in rows}


def gaps_of(first: Seeded, second: Seeded, scale: Scale) -> Gaps:
    """How many times worse the second is, as logarithms."""
    seeds = [seed for seed in first if seed in second and first[seed][0] > 0 and second[seed][0] > 0]
    mine, theirs = (
        np.array([runs[seed] for seed in seeds], dtype=np.float64).reshape(-1, 2) for runs in (first, second)
    )
    if scale.censorable:
        return Gaps.of_times(theirs, mine)
    worse, better = (mine, theirs) if scale.more_is_better else (theirs, mine)
    return Gaps.of_values(worse[:, 0], better[:, 0])


@dataclass(frozen=True)
class Errors:
    """What one open pair may still spend."""

    different: float
    equal: float
    """All equalities claimed are true together with 95 %: hence the error is shared among the pairs."""


@dataclass(frozen=True)
class PairGaps:
    gaps: Gaps
    ratio: float
    """Of the typical values, as they are shown."""
    scale: Scale

    def bounds(self, error: float) -> tuple[float, float]:
        """Of the ratio: what the evidence does not exclude, and the ratio of the values themselves."""
        low, high = (
            math.inf if math.isinf(bound) and bound > 0 else math.exp(bound)
            for bound in anytime.interval(self.gaps, error, censorable=self.scale.censorable)
        )
        return (low, high) if math.isnan(self.ratio) else (min(low, self.ratio), max(high, self.ratio))


def pair_result(
    pair: tuple[str, str], found: PairGaps, chance: float, errors: Errors, most: int | None
) -> PairResult:
    gaps, scale = found.gaps, found.scale
    low, high = found.bounds(ALPHA)
    surely_low, surely_high = found.bounds(errors.equal)
    if chance <= ALPHA and not low <= 1 <= high:
        state = DIFFERENT
    elif 1 / (1 + scale.within) <= surely_low and surely_high <= 1 + scale.within:
        state = EQUAL
    elif len(gaps) and np.isinf(gaps.low).all() and np.isinf(gaps.high).all():
        state = UNREACHED
    else:
        state = OPEN
    ahead = None
    if state == OPEN and most is not None:
        ahead = decided_by(
            gaps,
            math.log1p(scale.within),
            error=errors.different,
            equal_error=errors.equal,
            censorable=scale.censorable,
        )
    return PairResult(
        *pair,
        seeds=len(gaps),
        ratio=found.ratio,
        low=low,
        high=high,
        chance=chance,
        state=state,
        more_seeds=seeds_to_decide(ahead, len(gaps)),
        hope=None
        if ahead is None or most is None or most <= len(gaps)
        else float(ahead[min(most, MOST_SEEDS)]),
    )


def typical(runs: Seeded, scale: Scale) -> float:
    """As answers show it: the geometric mean, or the median of times that some run did not reach."""
    values = np.array(list(runs.values()), dtype=np.float64).reshape(-1, 2)
    if not len(values):
        return math.nan
    return point_of(values if scale.censorable else values[:, 0])


def times_worse(first: Seeded, second: Seeded, scale: Scale) -> float:
    """By how much the typical value of the second is worse."""
    mine, theirs = typical(first, scale), typical(second, scale)
    if not (0 < mine < math.inf and 0 < theirs < math.inf):
        return math.nan
    return mine / theirs if scale.more_is_better else theirs / mine


def ranking(runs: Mapping[str, Seeded], scale: Scale) -> list[str]:
    """Contestants from the best to the worst by what their runs show so far."""
    return sorted(runs, key=lambda name: (badness(runs[name], scale), name))


def badness(runs: Seeded, scale: Scale) -> float:
    value = typical(runs, scale)
    if math.isnan(value):
        return math.inf
    return -value if scale.more_is_better else value


def deciding_pairs(order: Sequence[str], until: str) -> list[tuple[str, str]]:
    """Pairs that must be settled: neighbours in the ranking, or everybody against the leader."""
    return list(itertools.pairwise(order)) if until == RESOLVED else [(order[0], name) for name in order[1:]]


def seeds_missing(a: Floats, b: Floats, alpha: float) -> int | None:
    """Seeds beyond those there are that would decide between the two with 80 % chance; None beyond 1,000.

    `alpha`: what the p of the two must not exceed, see `PairChance`.
    """
    logs_a, logs_b = log_values(a), log_values(b)
    if logs_a is None or logs_b is None or min(len(a), len(b)) < 2:
        return None
    found = difference(Moments.of(logs_a), Moments.of(logs_b))
    return runs_to_detect(found, min(len(a), len(b)), alpha)
