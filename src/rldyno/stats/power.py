"""How many more seeds would decide a comparison, judged by the runs so far and by how little they tell.

A plan that takes the difference seen so far for the true one promises too much: it may be smaller, and the
runs already there enter the final test as they are. Here the final mean is predicted: of `runs` runs so far
with mean difference d and standard error e, and m more, it is d + e √(m / (runs + m)) · T with Student's T.
The number that is given is the smallest m with which the verdict is reached with a chance of 80 %.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy import special

from rldyno.stats.distributions import ALPHA, t_quantile
from rldyno.stats.moments import Difference, Floats

POWER = 0.8
# A difference that needs more runs than this is too small to matter for a choice.
MOST_RUNS = 1000

Reach = Callable[[Floats], Floats]
"""Total runs → how many standard errors of that many runs the test asks for."""


def runs_to_detect(found: Difference, runs: int, alpha: float = ALPHA) -> int | None:
    """Further runs per group until a two-sided test sees the difference; None if > 1,000 in all.

    `alpha` is the p that the verdict asks for: 5 % divided by what the correction multiplies p by.
    """
    reach = t_reach(found, runs, 1 - alpha / 2)
    return fewest(runs, lambda more: chance_to_detect(found, runs, more, reach))


def chance_to_detect(found: Difference, runs: int, more: Floats, reach: Reach) -> Floats:
    """That a test finds a difference, either way, after so many more runs per group."""
    bound = final_error(found, runs, more) * reach(runs + more)
    return predicted_above(found, runs, more, bound) + 1 - predicted_above(found, runs, more, -bound)


def runs_to_show_equal(found: Difference, margin: float, runs: int, alpha: float = ALPHA) -> int | None:
    """Further runs (or pairs) until both one-sided tests reject; None where they perhaps never will."""
    reach = t_reach(found, runs, 1 - alpha)
    return fewest(runs, lambda more: chance_to_show_equal(found, margin, runs, more, reach))


def chance_to_show_equal(found: Difference, margin: float, runs: int, more: Floats, reach: Reach) -> Floats:
    """That the interval of a difference lies within ± margin after so many more runs."""
    room = np.maximum(margin - final_error(found, runs, more) * reach(runs + more), 0)
    return predicted_above(found, runs, more, -room) - predicted_above(found, runs, more, room)


def runs_to_clear(reach: float, distance: float, n: int) -> int | None:
    """Runs beyond n until a 95 % interval no longer reaches across a bound, at this distance from its point.

    `reach` is how far it extends to that side. None if > 1,000.
    """
    if not 0 < distance < math.inf or not math.isfinite(reach) or n < 2:
        return None
    found = Difference(distance, reach / t_quantile(1 - ALPHA / 2, n - 1), n - 1)
    asked = t_reach(found, n, 1 - ALPHA / 2)

    def chance(more: Floats) -> Floats:
        return predicted_above(found, n, more, final_error(found, n, more) * asked(n + more))

    return fewest(n, chance)


def detectable_difference(spread: float, runs: int) -> float:
    """What `runs` per group, each with this (known) spread, show at 5 % with 80 % power."""
    degrees = 2 * (runs - 1)
    reach = t_quantile(1 - ALPHA / 2, degrees) + t_quantile(POWER, degrees)
    return reach * spread * math.sqrt(2 / runs)


# --- prediction ---------------------------------------------------------------------------------------------


def fewest(runs: int, chance: Callable[[Floats], Floats]) -> int | None:
    more = np.arange(1.0, max(2, MOST_RUNS - runs + 1))
    with np.errstate(invalid="ignore"):
        enough = np.flatnonzero(chance(more) >= POWER)
    return int(more[enough[0]]) if len(enough) else None


def t_reach(found: Difference, runs: int, probability: float) -> Reach:
    """Student's t, its degrees of freedom growing with the runs."""
    per_run = found.degrees / (runs - 1)
    return lambda total: np.asarray(special.stdtrit(per_run * (total - 1), probability))


def final_error(found: Difference, runs: int, more: Floats) -> Floats:
    return np.asarray(found.error * np.sqrt(runs / (runs + more)))


def predicted_above(found: Difference, runs: int, more: Floats, bound: Floats) -> Floats:
    """The chance that the mean difference of all runs will lie above the bound."""
    with np.errstate(divide="ignore"):
        t = (bound - found.mean) / (found.error * np.sqrt(more / (runs + more)))
    return np.asarray(special.stdtr(found.degrees, -t))
