"""Point estimates over runs and their bootstrap intervals."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rldyno.stats.distributions import NORMAL, t_quantile

Floats = NDArray[np.float64]
# Reduces the last axis.
Statistic = Callable[[Floats], Floats]

LEVEL = 0.95
RESAMPLES = 2000
# Below this many runs an interval is hardly more than the range of the runs.
ENOUGH_RUNS = 5


@dataclass(frozen=True)
class Estimate:
    """A figure over runs. `low` and `high` bound it at 95 %, both None when there was a single run."""

    point: float
    low: float | None
    high: float | None
    n: int

    @property
    def too_few(self) -> bool:
        return self.n < ENOUGH_RUNS


def interquartile_mean(values: Floats) -> Floats:
    """Mean of the middle half along the last axis: ⌊n/4⌋ runs are cut off at each end (as in rliable)."""
    cut = values.shape[-1] // 4
    middle = np.sort(values, axis=-1)[..., cut : values.shape[-1] - cut]
    return np.asarray(middle.mean(axis=-1))


def mean(values: Floats) -> Floats:
    """Along the last axis."""
    return np.asarray(values.mean(axis=-1))


@dataclass(frozen=True)
class Sample:
    """A statistic over runs, and that of resamples of them, drawn once for every use; None for one run."""

    point: float
    draws: Floats | None
    n: int
    widen: float = 1.0


class Resampler:
    """Draws runs with replacement, once for each number of runs: several figures of the same runs share it.

    By hand: SciPy's bootstrap draws anew for every figure and knows no expanded percentiles.
    Of groups that are compared each needs a resampler of its own, for their draws to be independent.
    """

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._draws: dict[int, NDArray[np.intp]] = {}

    def draws(self, n: int) -> NDArray[np.intp]:
        """[RESAMPLES, n]; every draw is in order, which no statistic minds and sorting is quick with."""
        if n not in self._draws:
            drawn = self._rng.integers(0, n, size=(RESAMPLES, n), dtype=np.min_scalar_type(n))
            self._draws[n] = np.sort(drawn, axis=-1).astype(np.intp)
        return self._draws[n]

    def sample(self, values: Floats, statistic: Statistic = interquartile_mean) -> Sample:
        point, n = float(statistic(values)), len(values)
        if n < 2:
            return Sample(point, None, n)
        ordered = values[np.argsort(values if values.ndim == 1 else values[:, 0], kind="stable")]
        return Sample(point, statistic(ordered[self.draws(n)]), n, narrowness(statistic, n))


def sample(values: Floats, rng: np.random.Generator, statistic: Statistic = interquartile_mean) -> Sample:
    return Resampler(rng).sample(values, statistic)


def estimate_of(runs: Sample) -> Estimate:
    """The statistic over runs with its expanded percentile bootstrap interval."""
    if runs.draws is None:
        return Estimate(runs.point, None, None, runs.n)
    low, high = percentile_interval(runs.draws, runs.n - 1, widen=runs.widen)
    return Estimate(runs.point, low, high, runs.n)


def ratio_estimate(runs: Sample, base: Sample) -> Estimate:
    """The ratio of two independent groups of runs, both positive; ∞ / ∞ (never reached) bounds nothing."""
    n = min(runs.n, base.n)
    point = runs.point / base.point
    if runs.draws is None or base.draws is None:
        return Estimate(point, None, None, n)
    with np.errstate(invalid="ignore"):
        draws = runs.draws / base.draws
    lows, highs = np.where(np.isnan(draws), 0.0, draws), np.where(np.isnan(draws), np.inf, draws)
    degrees, widen = runs.n + base.n - 2, max(runs.widen, base.widen)
    low, _ = percentile_interval(lows, degrees, widen=widen)
    _, high = percentile_interval(highs, degrees, widen=widen)
    return Estimate(point, low, high, n)


def bootstrap(
    values: Floats, rng: np.random.Generator, statistic: Statistic = interquartile_mean
) -> Estimate:
    return estimate_of(sample(values, rng, statistic))


def ratio(
    values: Floats, base: Floats, rng: np.random.Generator, statistic: Statistic = interquartile_mean
) -> Estimate:
    return ratio_estimate(sample(values, rng, statistic), sample(base, rng, statistic))


def resampled(values: Floats, rng: np.random.Generator, statistic: Statistic) -> Floats:
    """The statistic of RESAMPLES draws, with replacement, of all runs (the first axis of `values`)."""
    return statistic(values[Resampler(rng).draws(len(values))])


def percentile_interval(
    resamples: Floats, degrees: int, level: float = LEVEL, widen: float = 1.0
) -> tuple[float, float]:
    """Percentiles of the bootstrap distribution, moved outward for few runs: α/2 = Φ(−t · widen).

    t is the 97.5 % point for `degrees` of freedom (Hesterberg 2015, sec. 4.3); `widen` see `narrowness`.
    """
    tail = NORMAL.cdf(-t_quantile((1 + level) / 2, degrees) * widen)
    # Order statistics instead of interpolation: a resample may be infinite (never reached).
    skip = math.floor(tail * len(resamples))
    last = len(resamples) - 1 - skip
    ordered = np.partition(resamples, (skip, last))
    return float(ordered[skip]), float(ordered[last])


def narrowness(statistic: Statistic, n: int) -> float:
    """√(n/(n−1)) for means, whose bootstrap distribution is too narrow by that.

    Interquartile means and medians do not need it: with it their 95 % intervals cover 98 %.
    """
    return math.sqrt(n / (n - 1)) if statistic is mean else 1.0
