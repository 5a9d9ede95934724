"""Figures over runs, ratios of them, and their intervals, which hold for few runs too.

`values` are those of the runs that differ in nothing but the seed: one number per run, or `stack`ed
(time, reached) rows where a run may never get there. What a figure estimates:

- values above 0, and times that every run reached: the geometric mean, by Student's t on logarithms;
- values that are not all above 0: the mean, by Student's t;
- times that some run did not reach: the median, by order statistics, for any distribution.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from rldyno.stats.censored import all_reached, as_times, median_bounds, median_draws, survival_median
from rldyno.stats.moments import Difference, Floats, Moments, difference

LEVEL = 0.95
RESAMPLES = 2000
# Below this many runs an interval says little more than the runs themselves.
ENOUGH_RUNS = 5

INTERVAL: Literal["interval"] = "interval"
RANGE: Literal["range"] = "range"


@dataclass(frozen=True)
class Estimate:
    """A figure over runs. `low` and `high` bound it at 95 %, both None when there was a single run.

    Where so few runs allow no interval of 95 % (fewer than six, one of which never got there), `kind` is
    "range": the bounds are then those of the runs, and may be infinite.
    """

    point: float
    low: float | None
    high: float | None
    n: int
    kind: Literal["interval", "range"] = INTERVAL

    @property
    def too_few(self) -> bool:
        return self.n < ENOUGH_RUNS

    def scaled(self, factor: float) -> Estimate:
        """In another unit."""
        low, high = (None if end is None else end * factor for end in (self.low, self.high))
        return Estimate(self.point * factor, low, high, self.n, self.kind)

    def inverse(self) -> Estimate:
        """Of a ratio: the other way round."""
        low, high = (
            None if end is None else math.inf if end == 0 else 1 / end for end in (self.high, self.low)
        )
        return Estimate(1 / self.point, low, high, self.n, self.kind)

    def to_json(self) -> dict[str, float | int | str | None]:
        """Infinite bounds (never reached) have no JSON number: null."""
        numbers = {"point": self.point, "low": self.low, "high": self.high}
        finite = {
            name: value if value is not None and math.isfinite(value) else None
            for name, value in numbers.items()
        }
        return {**finite, "runs": self.n, "bounds": self.kind}


def point_of(values: Floats) -> float:
    """The figure alone."""
    plain = uncensored(values)
    if plain is None:
        return float(survival_median(values))
    if len(plain) == 1:
        return float(plain[0])
    return float(np.exp(np.log(plain).mean())) if positive(plain) else float(plain.mean())


def estimate_of(values: Floats) -> Estimate:
    """The figure with its interval."""
    plain, n = uncensored(values), len(values)
    if n < 2:
        return Estimate(point_of(values), None, None, n)
    if plain is None:
        return median_estimate(values)
    if positive(plain):
        return as_factor(Moments.of(np.log(plain)).itself, n)
    low, high = Moments.of(plain).itself.interval(LEVEL)
    return Estimate(float(plain.mean()), max(0.0, low) if (plain >= 0).all() else low, high, n)


def median_estimate(values: Floats) -> Estimate:
    """The median of any values, or times that some run did not reach, with its interval."""
    point, n = float(survival_median(as_times(values))), len(values)
    if n < 2:
        return Estimate(point, None, None, n)
    low, high, exact = median_bounds(values, LEVEL)
    return Estimate(point, low, high, n, INTERVAL if exact else RANGE)


def ratio_estimate(values: Floats, base: Floats) -> Estimate | None:
    """The figure of one group of runs over that of another; None where that is no positive number.

    Welch's t on logarithms: it leaves 1 out exactly when the test of the two calls them different. Where a
    run is censored, from the intervals of both figures. Without bounds where a group has a single run, or a
    value has no logarithm.
    """
    n = min(len(values), len(base))
    over, under = point_of(values), point_of(base)
    if not (0 < over < math.inf and 0 < under < math.inf):
        return None
    logs, base_logs = log_values(values), log_values(base)
    if n < 2 or (logs is None and values.ndim == 1) or (base_logs is None and base.ndim == 1):
        return Estimate(over / under, None, None, n)
    if logs is not None and base_logs is not None:
        return as_factor(difference(Moments.of(logs), Moments.of(base_logs)), n)
    return combined(estimate_of(values), estimate_of(base), n)


def combined(over: Estimate, under: Estimate, n: int) -> Estimate:
    """The ratio of two figures from their intervals: the distances to the ends, as logarithms, add like
    standard errors (MOVER, Donner and Zou 2012).
    """
    kind = RANGE if RANGE in (over.kind, under.kind) else INTERVAL
    with np.errstate(divide="ignore", over="ignore"):
        ends, base_ends = (
            np.log(np.array([one.low, one.high], dtype=np.float64) / one.point) for one in (over, under)
        )
        # To the lower end of the one belongs the upper end of the other.
        reach = np.hypot(ends, base_ends[::-1])
        low, high = (over.point / under.point * np.exp([-reach[0], reach[1]])).tolist()
    return Estimate(over.point / under.point, low, high, n, kind)


def as_factor(found: Difference, n: int) -> Estimate:
    """From a mean of logarithms, or a difference of two."""
    low, high = found.interval(LEVEL)
    with np.errstate(over="ignore"):
        point, low, high = np.exp([found.mean, low, high]).tolist()
    return Estimate(point, low, high, n)


def uncensored(values: Floats) -> Floats | None:
    """One number per run; None where a run never got there."""
    if values.ndim == 1:
        return values
    return values[:, 0] if all_reached(values) else None


def positive(values: Floats) -> bool:
    return bool((values > 0).all())


def log_values(values: Floats) -> Floats | None:
    """None where a run was censored or a value has no logarithm."""
    plain = uncensored(values)
    return np.log(plain) if plain is not None and positive(plain) else None


# --- draws: figures of one group that enter a formula together ----------------------------------------------


class Sampler:
    """Draws figures as far from the estimate as the truth may be: percentiles of them are intervals.

    A draw is the mean plus Σ gᵢ (xᵢ − mean) / √(n χ²) with normal gᵢ and one χ² of n − 1 degrees: then
    every figure, alone, is off by Student's t times its standard error, and figures of the same runs stay as
    correlated as the runs are. (Resampling the runs would give draws too close together: by √(n/(n−1)), and
    with normal instead of t tails.) Of groups that are compared each needs a sampler of its own, for their
    draws to be independent.
    """

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._weights: dict[int, Floats] = {}

    def weights(self, n: int) -> Floats:
        """[RESAMPLES, n]"""
        if n not in self._weights:
            squares = self._rng.chisquare(n - 1, (RESAMPLES, 1))
            self._weights[n] = self._rng.standard_normal((RESAMPLES, n)) / np.sqrt(n * squares)
        return self._weights[n]

    def draws(self, values: Floats) -> Floats:
        """RESAMPLES of the figure that `point_of` gives; that figure itself for a single run."""
        plain, n = uncensored(values), len(values)
        if n < 2:
            return np.full(RESAMPLES, point_of(values))
        if plain is None:
            return median_draws(values, self._rng, RESAMPLES)
        numbers = np.log(plain) if positive(plain) else plain
        mean = numbers.mean()
        found = mean + self.weights(n) @ (numbers - mean)
        # Two runs may give draws of any size: bounded, so that differences of them are numbers.
        return np.exp(np.clip(found, -300, 300)) if positive(plain) else np.asarray(found)


def draws_interval(draws: Floats, level: float = LEVEL) -> tuple[float, float]:
    """Percentiles; order statistics instead of interpolation, since a draw may be infinite."""
    skip = math.floor((1 - level) / 2 * len(draws))
    last = len(draws) - 1 - skip
    ordered = np.partition(draws, (skip, last))
    return float(ordered[skip]), float(ordered[last])
