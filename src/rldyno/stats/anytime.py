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
from numpy.typing import NDArray

from rldyno.stats.distributions import t_quantile
from rldyno.stats.estimates import LEVEL
from rldyno.stats.moments import Floats

# Two normal priors of the typical gap, equally weighted; their variances, in variances of a single gap. The
# first serves gaps that ten to thirty runs show, the second those that five show.
PRIOR_VARIANCES = (1.0, 30.0)
T_MOST = 1e6
# Of this many gaps or more, this share is also cut off at each end.
TRIMMED_FROM = 10
TRIMMED = 0.2
# Forecasts go no further: what needs more seeds is too small to matter for a choice.
MOST_SEEDS = 300


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
    of_mean = mean_chance(gaps.low) if usable else 1.0
    if not censorable:
        return min(1.0, of_mean)
    above, below = int((gaps.low > 0).sum()), int((gaps.high < 0).sum())
    return min(1.0, 2 * min(of_mean, 1 / sign_evidence(above, below)))


# --- Student's t --------------------------------------------------------------------------------------------


def t_evidence(t: Floats | float, n: Floats | NDArray[np.int64] | int) -> Floats:
    """Bayes factor of a gap ~ N(0, g σ²) against none, for any σ (right Haar prior), mean over the priors g:

    E = (1 + n g)^(−1/2) · [(1 + t²/ν) / (1 + t²/(ν (1 + n g)))]^(n/2), ν = n − 1.

    The t statistics do not depend on σ, and of them E is a likelihood ratio: hence exact for normal gaps
    (Lai 1976; Rouder et al. 2009; Pérez-Ortiz et al. 2024).
    """
    runs = np.asarray(n, dtype=np.float64)
    square = np.square(t) / (runs - 1)
    logs = [
        runs / 2 * (np.log1p(square) - np.log1p(square / (1 + runs * g))) - np.log1p(runs * g) / 2
        for g in PRIOR_VARIANCES
    ]
    # No error is small enough to ask for more than e⁷⁰⁰.
    return np.asarray(np.exp(np.minimum(np.logaddexp.reduce(logs), 700.0)) / len(logs))


@dataclass(frozen=True)
class Location:
    """A mean of gaps, its standard error, and the number of gaps that the error rests on."""

    mean: float
    error: float
    n: int

    @property
    def t(self) -> float:
        """Capped where the runs are so much alike that the evidence has no number."""
        if abs(self.mean) >= T_MOST * self.error:
            return 0.0 if self.mean == 0 else math.copysign(T_MOST, self.mean)
        return self.mean / self.error

    def bounds(self, error: float) -> tuple[float, float]:
        reach = t_reach(self.n, error)
        if math.isinf(reach):
            return -math.inf, math.inf
        return self.mean - reach * self.error, self.mean + reach * self.error


def locations(gaps: Floats) -> list[Location]:
    """The mean; of ten gaps or more also the mean of the middle three fifths (Yuen 1974).

    Both must show a difference. The mean alone moves with the outliers of one side, which enough runs make
    significant; of few runs outliers widen the spread more than they move the mean.
    """
    n = len(gaps)
    found = [Location(float(gaps.mean()), float(gaps.std(ddof=1)) / math.sqrt(n), n)]
    if trimmed_size(n) < n:
        cut = (n - trimmed_size(n)) // 2
        ordered = np.sort(gaps)
        kept = ordered[cut : n - cut]
        winsorised = np.clip(ordered, kept[0], kept[-1])
        error = float(winsorised.std(ddof=1)) / math.sqrt(n) * n / len(kept)
        found.append(Location(float(kept.mean()), error, len(kept)))
    return found


def trimmed_size(n: int) -> int:
    """Gaps that the trimmed mean keeps."""
    return n if n < TRIMMED_FROM else n - 2 * int(TRIMMED * n)


def mean_chance(gaps: Floats) -> float:
    """Where the mean and the trimmed mean do not even have the same sign, nothing is shown."""
    found = [location.t for location in locations(gaps)]
    if min(found) < 0 < max(found):
        return 1.0
    sizes = [location.n for location in locations(gaps)]
    return max(1 / float(t_evidence(t, n)) for t, n in zip(found, sizes, strict=True))


def mean_interval(gaps: Floats, error: float) -> tuple[float, float]:
    """Both intervals together: what either of the two means does not exclude."""
    if len(gaps) < 2:
        return -math.inf, math.inf
    bounds = [location.bounds(error) for location in locations(gaps)]
    return min(low for low, _ in bounds), max(high for _, high in bounds)


def t_reach(n: int, error: float) -> float:
    """The t at which the evidence of n gaps is 1/error; infinite where no t of so few gaps will do."""
    if n < 2:
        return math.inf
    return float(t_reaches(error)[n]) if n <= MOST_SEEDS else float(reach_of(np.array([n]), error)[0])


@lru_cache(maxsize=64)
def t_reaches(error: float) -> Floats:
    """For every n up to MOST_SEEDS, which is its index."""
    reaches = np.full(MOST_SEEDS + 1, math.inf)
    reaches[2:] = reach_of(np.arange(2, MOST_SEEDS + 1), error)
    return reaches


def reach_of(n: NDArray[np.int64], error: float) -> Floats:
    low, high = np.zeros(len(n)), np.full(len(n), math.log(T_MOST))
    # Bisection: the evidence rises with t, over too many powers of ten for faster methods to be safe.
    while (high - low > 1e-10 * high).any():
        middle = (low + high) / 2
        below = t_evidence(np.exp(middle), n) < 1 / error
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.where(t_evidence(T_MOST, n) < 1 / error, math.inf, np.exp((low + high) / 2))


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
