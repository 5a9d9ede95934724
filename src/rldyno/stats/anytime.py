"""Evidence that may be checked after every run: intervals that hold at all numbers of runs at once.

A test that is repeated after each run finds a difference at some point, whether there is one or not. Here
evidence is a non-negative process that starts at 1 and, while the difference is the supposed one, is not
expected to grow: the chance that it ever reaches 1/ε is at most ε (Ville's inequality), whatever the rule by
which one checks and stops. The differences that the evidence never contradicts make up the interval.

`gaps` are differences of logarithms, run by run of two contestants with one seed, in the order of the seeds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from rldyno.stats.bootstrap import LEVEL, Floats
from rldyno.stats.distributions import t_quantile
from rldyno.stats.power import MOST_RUNS

# Two normal priors of the typical gap, equally weighted; their variances, in variances of a single gap. The
# first serves gaps that ten to thirty runs show, the second those that five show.
PRIOR_VARIANCES = (1.0, 30.0)
T_MOST = 1e6


@dataclass(frozen=True)
class Gaps:
    """Bounds of each gap: equal where both runs got there, infinite on the side that nobody has seen."""

    low: Floats
    high: Floats

    @classmethod
    def of_values(cls, a: Floats, b: Floats) -> Gaps:
        gaps = np.log(a) - np.log(b)
        return cls(gaps, gaps)

    @classmethod
    def of_times(cls, a: Floats, b: Floats) -> Gaps:
        """Of `stack`ed (time, reached) runs: one that never reached it took longer than that."""
        gaps = np.log(a[:, 0]) - np.log(b[:, 0])
        return cls(np.where(b[:, 1] > 0, gaps, -np.inf), np.where(a[:, 1] > 0, gaps, np.inf))

    @property
    def exact(self) -> bool:
        return bool((self.low == self.high).all())

    def __len__(self) -> int:
        return len(self.low)


def interval(gaps: Gaps, error: float, *, censorable: bool) -> tuple[float, float]:
    """Bounds of the typical gap; at any time, and at all times together, they miss it with chance ≤ `error`.

    Gaps of values: Student's t. Gaps of times that a run may fail to reach: half of the error goes to
    Student's t, which is used as long as every run got there, half to signs, which are always used.
    """
    if not censorable:
        return mean_interval(gaps.low, error)
    low, high = median_interval(gaps, error / 2)
    if gaps.exact:
        mean_low, mean_high = mean_interval(gaps.low, error / 2)
        if max(low, mean_low) <= min(high, mean_high):
            return max(low, mean_low), min(high, mean_high)
    return low, high


def chance(gaps: Gaps, *, censorable: bool) -> float:
    """The smallest error at which the interval leaves out 0: a p that holds at any time."""
    usable = gaps.exact and len(gaps) > 1
    of_mean = 1 / float(t_evidence(t_statistic(gaps.low), len(gaps))) if usable else 1.0
    if not censorable:
        return min(1.0, of_mean)
    above, below = int((gaps.low > 0).sum()), int((gaps.high < 0).sum())
    return min(1.0, 2 * min(of_mean, 1 / sign_evidence(above, below)))


def runs_missing(gaps: Gaps, error: float, margin: float) -> int | None:
    """Further gaps that would settle it, either way, if mean and spread stayed; None beyond 1,000."""
    if not gaps.exact or len(gaps) < 2:
        return None
    distance, deviation = abs(float(gaps.low.mean())), float(gaps.low.std(ddof=1))
    room = max(distance, margin - distance)
    for n in range(len(gaps) + 1, MOST_RUNS + 1):
        if t_reach(n, error) * deviation / math.sqrt(n) <= room:
            return n - len(gaps)
    return None


# --- Student's t --------------------------------------------------------------------------------------------


def t_evidence(t: Floats | float, n: int) -> Floats:
    """Bayes factor of a gap ~ N(0, g σ²) against none, for any σ (right Haar prior), mean over the priors g:

    E = (1 + n g)^(−1/2) · [(1 + t²/ν) / (1 + t²/(ν (1 + n g)))]^(n/2), ν = n − 1.

    The t statistics do not depend on σ, and of them E is a likelihood ratio: hence exact for normal gaps
    (Lai 1976; Rouder et al. 2009; Pérez-Ortiz et al. 2024).
    """
    square = np.square(t) / (n - 1)
    logs = [
        n / 2 * (np.log1p(square) - np.log1p(square / (1 + n * g))) - math.log1p(n * g) / 2
        for g in PRIOR_VARIANCES
    ]
    # No error is small enough to ask for more than e⁷⁰⁰.
    return np.asarray(np.exp(np.minimum(np.logaddexp.reduce(logs), 700.0)) / len(logs))


def t_statistic(gaps: Floats) -> float:
    """Capped where the runs are so much alike that the evidence has no number."""
    mean, deviation = float(gaps.mean()), float(gaps.std(ddof=1))
    if abs(mean) >= T_MOST * deviation:
        return 0.0 if mean == 0 else math.copysign(T_MOST, mean)
    return mean / deviation * math.sqrt(len(gaps))


@lru_cache(maxsize=4096)
def t_reach(n: int, error: float) -> float:
    """The t at which the evidence of n gaps is 1/error; infinite where no t of so few gaps will do."""
    if n < 2 or t_evidence(T_MOST, n) < 1 / error:
        return math.inf
    low, high = 0.0, math.log(T_MOST)
    # Bisection: the evidence rises with t, over too many powers of ten for faster methods to be safe.
    while high - low > 1e-10 * high:
        middle = (low + high) / 2
        if t_evidence(math.exp(middle), n) < 1 / error:
            low = middle
        else:
            high = middle
    return math.exp((low + high) / 2)


def mean_interval(gaps: Floats, error: float) -> tuple[float, float]:
    reach = t_reach(len(gaps), error)
    if math.isinf(reach):
        return -math.inf, math.inf
    half = reach * float(gaps.std(ddof=1)) / math.sqrt(len(gaps))
    return float(gaps.mean()) - half, float(gaps.mean()) + half


def widening(n: int) -> float:
    """By how much an interval of n runs must grow to hold at any number of them; 95 %."""
    return t_reach(n, 1 - LEVEL) / t_quantile((1 + LEVEL) / 2, n - 1) if n > 1 else math.inf


def widened(draws: Floats, point: float, n: int) -> Floats:
    """Resamples of a statistic of n runs, moved away from it by `widening`; positive ones as factors."""
    by = min(widening(n), 1e3)
    if point > 0 and (draws > 0).all():
        with np.errstate(over="ignore"):
            return np.asarray(point * (draws / point) ** by)
    return np.asarray(point + by * (draws - point))


# --- signs --------------------------------------------------------------------------------------------------


@lru_cache(maxsize=4096)
def sign_evidence(above: int, below: int) -> float:
    """Of so many gaps above a value, and below it, against its being the median.

    E = 2ⁿ B(above + ½, below + ½) / B(½, ½): all shares, weighted by Jeffreys' prior, against one half. Gaps
    that are not known to be above or below (neither run got there) say nothing.
    """
    n = above + below
    log_beta = math.lgamma(above + 0.5) + math.lgamma(below + 0.5) - math.lgamma(n + 1) - math.log(math.pi)
    return math.exp(n * math.log(2) + log_beta)


def median_interval(gaps: Gaps, error: float) -> tuple[float, float]:
    """The values that signs do not contradict."""
    return lower_bound(gaps.low, gaps.high, error), -lower_bound(-gaps.high, -gaps.low, error)


def lower_bound(low: Floats, high: Floats, error: float) -> float:
    """The highest value just below which too many gaps lie above; −∞ where there is none."""
    bounds = np.concatenate([low, high])
    values = np.unique(bounds[np.isfinite(bounds)])
    above = (low >= values[:, None]).sum(axis=1).tolist()
    below = (high < values[:, None]).sum(axis=1).tolist()
    refuted = [
        float(value)
        for value, more, fewer in zip(values, above, below, strict=True)
        if more > fewer and sign_evidence(more, fewer) >= 1 / error
    ]
    return max(refuted, default=-math.inf)
