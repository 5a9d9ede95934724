"""How often a run of one contestant is better than one of another."""

from __future__ import annotations

import numpy as np

from rldyno.stats.distributions import t_quantile
from rldyno.stats.estimates import LEVEL, Estimate
from rldyno.stats.moments import Floats

# Shares that the interval tries, from 0 to 1.
GRID = np.linspace(0, 1, 2001)


def probability_of_improvement(better: Floats, than: Floats) -> Estimate:
    """P(X > Y) + ½ P(X = Y), X and Y one run of each; higher values must be better, infinite ones may occur.

    The interval holds the shares θ with (θ − θ̂)² ≤ t² V(θ), the variance of θ̂ were θ true: (Newcombe 2006,
    method 5) V = θ(1−θ) [1 + (N−1) ((1−θ)/(2−θ) + θ/(1+θ))] / nm, N = (n+m)/2. Thus complete separation of a
    few runs does not give [1, 1]. Student's t in place of Newcombe's 1.96, which covers 90 % for three runs.
    """
    over, equal = better[:, None] > than[None, :], better[:, None] == than[None, :]
    point, smaller = float((over + 0.5 * equal).mean()), min(over.shape)
    if smaller < 2:
        return Estimate(point, None, None, smaller)
    others = (sum(over.shape) / 2 - 1) * ((1 - GRID) / (2 - GRID) + GRID / (1 + GRID))
    variance = GRID * (1 - GRID) * (1 + others) / over.size
    reach = t_quantile((1 + LEVEL) / 2, sum(over.shape) - 2)
    within = GRID[(GRID - point) ** 2 <= reach**2 * variance]
    return Estimate(point, min(point, float(within[0])), max(point, float(within[-1])), smaller)
