"""Distribution functions the standard library lacks, by the incomplete beta and gamma functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from statistics import NormalDist

NORMAL = NormalDist()
_TINY = 1e-300


def incomplete_beta(x: float, a: float, b: float) -> float:
    """Regularised incomplete beta function I_x(a, b), by its continued fraction (Lentz's method)."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        return 1 - incomplete_beta(1 - x, b, a)
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    c, d = 1.0, 1 / _away_from_zero(1 - (a + b) * x / (a + 1))
    fraction = d
    for m in range(1, 500):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1 / _away_from_zero(1 + term * d)
            c = _away_from_zero(1 + term / c)
            fraction *= c * d
        if abs(c * d - 1) < 1e-14:
            break
    return math.exp(log_front) * fraction / a


def _away_from_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY


def t_tail(t: float, degrees: float) -> float:
    """P(T > t) of Student's t; degrees of freedom need not be whole."""
    if math.isinf(t):
        return float(t < 0)
    tail = 0.5 * incomplete_beta(degrees / (degrees + t * t), degrees / 2, 0.5)
    return tail if t > 0 else 1 - tail


@lru_cache(maxsize=4096)
def t_quantile(probability: float, degrees: float) -> float:
    """The t with P(T ≤ t) = probability."""
    if probability < 0.5:
        return -t_quantile(1 - probability, degrees)
    high = 1.0
    while t_tail(high, degrees) > 1 - probability:
        high *= 2
    return bisect(lambda t: 1 - t_tail(t, degrees) - probability, 0.0, high)


def incomplete_gamma(a: float, x: float) -> float:
    """Regularised lower incomplete gamma function P(a, x), by its series: for x of the order of a."""
    if x <= 0:
        return 0.0
    term = total = 1.0
    n = 0
    while term > 1e-16 * total:
        n += 1
        term *= x / (a + n)
        total += term
    return total * math.exp(a * math.log(x) - x - math.lgamma(a + 1))


def deviation_interval(deviation: float, n: int, level: float = 0.95) -> tuple[float, float]:
    """Of the standard deviation of a normal variable, from that of n draws (chi-squared)."""

    def bound(tail: float) -> float:
        quantile = bisect(lambda x: incomplete_gamma((n - 1) / 2, x / 2) - tail, 0.0, 20.0 * n)
        return deviation * math.sqrt((n - 1) / quantile)

    return bound((1 + level) / 2), bound((1 - level) / 2)


def proportion_interval(hits: int, n: int, level: float = 0.95) -> tuple[float, float]:
    """Clopper–Pearson interval of a share: never covers less than `level`."""
    tail = (1 - level) / 2
    low = bisect(lambda p: incomplete_beta(p, hits, n - hits + 1) - tail, 0.0, 1.0) if hits else 0.0
    high = (
        bisect(lambda p: incomplete_beta(p, hits + 1, n - hits) - (1 - tail), 0.0, 1.0) if hits < n else 1.0
    )
    return low, high


def bisect(rising: Callable[[float], float], low: float, high: float) -> float:
    """The zero of a rising function between `low` and `high`."""
    while high - low > 1e-10 * max(1.0, abs(high)):
        middle = (low + high) / 2
        if rising(middle) < 0:
            low = middle
        else:
            high = middle
    return (low + high) / 2
