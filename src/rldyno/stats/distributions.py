"""Tails, quantiles and the intervals that follow from them: SciPy's special functions under plain names.

`scipy.special` and not `scipy.stats`, which takes many times as long to import.
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray
from scipy import special

NORMAL = NormalDist()
# The error that every verdict may have.
ALPHA = 0.05

Counts = NDArray[np.int_] | int


def t_tail(t: float, degrees: float) -> float:
    """P(T > t) of Student's t; degrees of freedom need not be whole."""
    return float(special.stdtr(degrees, -t))


@lru_cache(maxsize=4096)
def t_quantile(probability: float, degrees: float) -> float:
    """The t with P(T ≤ t) = probability."""
    return float(special.stdtrit(degrees, probability))


def deviation_interval(deviation: float, n: int, level: float = 0.95) -> tuple[float, float]:
    """Of the standard deviation of a normal variable, from that of n draws (chi-squared)."""

    def bound(tail: float) -> float:
        return deviation * math.sqrt((n - 1) / float(special.chdtri(n - 1, 1 - tail)))

    return bound((1 + level) / 2), bound((1 - level) / 2)


def proportion_interval(hits: int, n: int, level: float = 0.95) -> tuple[float, float]:
    """Clopper–Pearson interval of a share: never covers less than `level`."""
    low, high = proportion_bounds(hits, n, level)
    return float(low), float(high)


def proportion_bounds(
    hits: Counts, n: Counts, level: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The same for many shares at once."""
    hits, n, tail = np.asarray(hits), np.asarray(n), (1 - level) / 2
    # The beta distribution of no misses, or of no hits, does not exist: the end is then 1, or 0.
    low = np.where(hits > 0, special.betaincinv(np.maximum(hits, 1), n - hits + 1, tail), 0.0)
    high = np.where(hits < n, special.betaincinv(hits + 1, np.maximum(n - hits, 1), 1 - tail), 1.0)
    return low, high
