"""Means of runs and their differences, with Student's t: what intervals and tests of values share."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rldyno.stats.distributions import t_quantile, t_tail

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Moments:
    """Mean, sample variance and number of runs: all that Welch's test needs."""

    mean: float
    variance: float
    n: int

    @classmethod
    def of(cls, values: Floats) -> Moments:
        variance = float(values.var(ddof=1)) if len(values) > 1 else math.nan
        return cls(float(values.mean()), variance, len(values))

    @property
    def itself(self) -> Difference:
        """The mean, as its difference from 0."""
        return Difference(self.mean, math.sqrt(self.variance / self.n), self.n - 1)


@dataclass(frozen=True)
class Difference:
    """a − b with its standard error and degrees of freedom."""

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

    def interval(self, level: float) -> tuple[float, float]:
        """Leaves 0 out exactly when `p_nonzero` is below 1 − level."""
        reach = t_quantile((1 + level) / 2, self.degrees) * self.error
        return self.mean - reach, self.mean + reach


def difference(a: Moments, b: Moments) -> Difference:
    """Welch: error² = s²ₐ/nₐ + s²_b/n_b; degrees by Welch–Satterthwaite. Both need two runs."""
    share_a, share_b = a.variance / a.n, b.variance / b.n
    squared = share_a + share_b
    if squared in (0.0, math.inf):  # no spread, or one that no float holds: nothing to weigh
        return Difference(a.mean - b.mean, squared, a.n + b.n - 2)
    # As shares of the sum: squares of the smallest numbers are 0.
    part_a, part_b = share_a / squared, share_b / squared
    degrees = 1 / (part_a**2 / (a.n - 1) + part_b**2 / (b.n - 1))
    return Difference(a.mean - b.mean, math.sqrt(squared), degrees)


def paired_difference(a: Floats, b: Floats) -> Difference:
    """Of runs that belong together pair by pair, as those of one seed do."""
    return Moments.of(a - b).itself
