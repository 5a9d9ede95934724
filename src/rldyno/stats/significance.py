"""Whether two groups of runs differ: tests, and the correction for many of them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from rldyno.stats.bootstrap import Floats
from rldyno.stats.distributions import NORMAL, t_tail

# Up to this many ways to split the runs into two groups, every one of them is counted.
EXACT_SPLITS = 50_000


@dataclass(frozen=True)
class Moments:
    """Mean, sample variance and number of runs: all that Welch's test needs."""

    mean: float
    variance: float
    n: int

    @classmethod
    def of(cls, values: Floats) -> Moments:
        return cls(
            float(values.mean()), float(values.var(ddof=1)) if len(values) > 1 else math.nan, len(values)
        )


@dataclass(frozen=True)
class Difference:
    """a − b with its standard error and Welch's degrees of freedom."""

    mean: float
    error: float
    degrees: float

    def p_above(self, bound: float) -> float:
        """One-sided: evidence against a − b ≤ bound; small when the difference lies above it."""
        if self.error == 0:
            return float(self.mean <= bound)
        return t_tail((self.mean - bound) / self.error, self.degrees)

    def p_below(self, bound: float) -> float:
        """One-sided: evidence against a − b ≥ bound."""
        if self.error == 0:
            return float(self.mean >= bound)
        return t_tail((bound - self.mean) / self.error, self.degrees)

    def p_nonzero(self) -> float:
        return min(1.0, 2 * min(self.p_above(0), self.p_below(0)))


def difference(a: Moments, b: Moments) -> Difference:
    """Welch: error² = s²ₐ/nₐ + s²_b/n_b; degrees by Welch–Satterthwaite. Both need two runs."""
    share_a, share_b = a.variance / a.n, b.variance / b.n
    squared = share_a + share_b
    if squared == 0:
        return Difference(a.mean - b.mean, 0.0, a.n + b.n - 2)
    degrees = squared**2 / (share_a**2 / (a.n - 1) + share_b**2 / (b.n - 1))
    return Difference(a.mean - b.mean, math.sqrt(squared), degrees)


def paired_difference(a: Floats, b: Floats) -> Difference:
    """Of runs that belong together pair by pair, as those of one seed do."""
    gaps = a - b
    return Difference(float(gaps.mean()), float(gaps.std(ddof=1)) / math.sqrt(len(gaps)), len(gaps) - 1)


def welch(a: Floats, b: Floats) -> float:
    """Two-sided p of Welch's t test; 1 when a group has a single run."""
    if min(len(a), len(b)) < 2:
        return 1.0
    return difference(Moments.of(a), Moments.of(b)).p_nonzero()


def permutation_p(scores: Floats, first: int, *, side: int = 0) -> float:
    """How often a random split of the scores puts a sum as extreme as theirs on the `first` ones.

    By hand, since SciPy's log-rank test knows the normal approximation only, too rough for five runs.
    `side` is 0 for two-sided, 1 when only a high sum counts, −1 for a low one. All splits are counted while
    they are few; beyond that the sum is taken as normal with its permutation variance.
    """
    n = len(scores)
    if not 0 < first < n:
        return 1.0
    centred = scores - scores.mean()
    observed = float(centred[:first].sum())
    if math.comb(n, first) <= EXACT_SPLITS:
        sums = centred[_splits(n, first)].sum(axis=1)
        slack = 1e-9 * float(np.abs(centred).sum())
        extreme = (
            np.abs(sums) >= abs(observed) - slack if side == 0 else side * sums >= side * observed - slack
        )
        return float(extreme.mean())
    variance = first * (n - first) / (n * (n - 1)) * float((centred**2).sum())
    if variance == 0:
        return 1.0
    z = observed / math.sqrt(variance)
    return 2 * NORMAL.cdf(-abs(z)) if side == 0 else NORMAL.cdf(-side * z)


@lru_cache(maxsize=8)
def _splits(n: int, first: int) -> NDArray[np.intp]:
    return np.array(list(itertools.combinations(range(n), first)), dtype=np.intp)


def log_rank(a: Floats, b: Floats, *, side: int = 0) -> float:
    """p of the log-rank test on `stack`ed (time, reached) runs: do both see the event at the same pace?

    Runs are scored by the Nelson–Aalen estimate of the pooled sample, Savage's score Λ(t) − reached, high for
    late runs, and the scores are permuted. `side` = 1 counts only an `a` that is later.
    """
    return permutation_p(savage_scores(np.concatenate([a, b])), len(a), side=side)


def savage_scores(runs: Floats) -> Floats:
    times, events = runs[:, 0], runs[:, 1] > 0
    hazard = np.zeros(len(times))
    for moment in np.unique(times[events]):
        hazard[times >= moment] += (events & (times == moment)).sum() / (times >= moment).sum()
    return np.asarray(hazard - events)


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down correction: rejecting what is ≤ α keeps the family-wise error at α."""
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    adjusted = [1.0] * len(p_values)
    worst = 0.0
    for rank, index in enumerate(order):
        worst = max(worst, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = worst
    return adjusted
