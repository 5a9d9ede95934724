"""Whether two groups of runs are equal within a margin, different, or undecided."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from rldyno.stats.distributions import ALPHA, Counts, proportion_bounds
from rldyno.stats.moments import Difference, Floats
from rldyno.stats.power import MOST_RUNS, POWER, runs_to_show_equal
from rldyno.stats.significance import fisher

EQUAL, DIFFERENT, UNDECIDED = "equal", "different", "undecided"
# How often a plan for shares is tried out.
PLANS = 400


@dataclass(frozen=True)
class Equivalence:
    """A difference and its bounds at 1 − 2α = 90 %.

    They lie within ± margin exactly when two one-sided tests, at α each, reject that it lies outside
    (Schuirmann 1987).
    """

    difference: float
    low: float
    high: float
    margin: float
    p_different: float
    """Small: the difference lies outside the margin; of shares, it is not 0."""
    n: int
    more_runs: int | None = None
    """Further runs that would show it equal with 80 % chance; None where it is, or perhaps never will be."""

    def state(self, p_different: float | None = None) -> str:
        """`p_different` may be corrected for a family of tests."""
        if (self.p_different if p_different is None else p_different) <= ALPHA:
            return DIFFERENT
        return EQUAL if -self.margin <= self.low and self.high <= self.margin else UNDECIDED


@dataclass(frozen=True, kw_only=True)
class ShareEquivalence(Equivalence):
    """Of two shares of runs: `hits` of `runs`, and those of the base."""

    hits: int
    runs: int
    base_hits: int
    base_runs: int


def tost(found: Difference, margin: float, n: int) -> Equivalence:
    """Of means. `n`: pairs, or runs of the smaller group."""
    low, high = found.interval(1 - 2 * ALPHA)
    # Either side may be the one that is left: hence twice the smaller.
    p_different = min(1.0, 2 * min(found.p_above(margin), found.p_below(-margin)))
    within = -margin <= low and high <= margin
    more = None if within else runs_to_show_equal(found, margin, n)
    return Equivalence(found.mean, low, high, margin, p_different, n, more)


@lru_cache(maxsize=1024)
def share_equivalence(hits: int, n: int, base_hits: int, base_n: int, margin: float) -> ShareEquivalence:
    """Of two shares of runs, that of the base subtracted.

    Bounds from the exact (Clopper–Pearson) interval of each share, combined as in `estimates.combined`;
    whether they differ, by Fisher's exact test.
    """
    low, high = (float(end) for end in share_bounds(hits, n, base_hits, base_n))
    difference = hits / n - base_hits / base_n
    open_still = abs(difference) <= margin and not (-margin <= low and high <= margin)
    more = runs_to_show_equal_shares(hits, n, base_hits, base_n, margin) if open_still else None
    return ShareEquivalence(
        difference,
        low,
        high,
        margin,
        p_different=fisher(hits, n, base_hits, base_n),
        n=min(n, base_n),
        more_runs=more,
        hits=hits,
        runs=n,
        base_hits=base_hits,
        base_runs=base_n,
    )


def share_bounds(hits: Counts, n: Counts, base_hits: Counts, base_n: Counts) -> tuple[Floats, Floats]:
    """Of the difference of two shares, at 90 %."""
    share, base = np.asarray(hits) / n, np.asarray(base_hits) / base_n
    low, high = proportion_bounds(hits, n, 1 - 2 * ALPHA)
    base_low, base_high = proportion_bounds(base_hits, base_n, 1 - 2 * ALPHA)
    return (
        share - base - np.hypot(share - low, base_high - base),
        share - base + np.hypot(high - share, base - base_low),
    )


def runs_to_show_equal_shares(hits: int, n: int, base_hits: int, base_n: int, margin: float) -> int | None:
    """Tried out: one share of both that the runs so far allow (Jeffreys' prior), and more runs with it."""
    rng = np.random.default_rng(0)
    all_hits, all_misses = hits + base_hits, n + base_n - hits - base_hits
    shares = rng.beta(all_hits + 0.5, all_misses + 0.5, PLANS)
    for more in np.unique(np.geomspace(1, MOST_RUNS, 60).round().astype(int)):
        extra, base_extra = rng.binomial(more, shares), rng.binomial(more, shares)
        low, high = share_bounds(hits + extra, n + more, base_hits + base_extra, base_n + more)
        if ((-margin <= low) & (high <= margin)).mean() >= POWER:
            return int(more)
    return None
