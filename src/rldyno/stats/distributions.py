"""Tails, quantiles and the intervals that follow from them: SciPy's special functions under plain names.

`scipy.special` and not `scipy.stats`, which takes many times as long to import.
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

from scipy import special

NORMAL = NormalDist()


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
    tail = (1 - level) / 2
    low = float(special.betaincinv(hits, n - hits + 1, tail)) if hits else 0.0
    high = float(special.betaincinv(hits + 1, n - hits, 1 - tail)) if hits < n else 1.0
    return low, high
