"""How many more seeds would decide a comparison, if they behave like the runs so far."""

from __future__ import annotations

import math

from rldyno.stats.distributions import NORMAL, t_quantile

ALPHA = 0.05
POWER = 0.8
# A difference that needs more runs than this is too small to matter for a choice.
MOST_RUNS = 1000


def runs_to_detect(difference: float, spread_a: float, spread_b: float) -> int | None:
    """Runs per group with which a two-sided test at 5 % sees the difference with 80 % power; None if > 1,000.

    n = (t_{1−α/2} + t_{power})² · (s²ₐ + s²_b) / difference², t with the degrees of freedom of that n.
    """
    return runs_needed(abs(difference), math.hypot(spread_a, spread_b), ALPHA / 2, POWER, 2)


def detectable_difference(spread: float, runs: int) -> float:
    """The inverse: the difference that `runs` per group, each with this spread, show with 80 % power."""
    degrees = 2 * (runs - 1)
    reach = t_quantile(1 - ALPHA / 2, degrees) + t_quantile(POWER, degrees)
    return reach * spread * math.sqrt(2 / runs)


def runs_to_show_equal(difference: float, margin: float, spread: float) -> int | None:
    """Runs (or pairs) with which both one-sided tests reject; `spread` is that of one run's difference.

    None where the difference itself is not within the margin.
    """
    room = margin - abs(difference)
    # At a difference of 0 either test may fail, so each gets half of what may go wrong.
    power = 1 - (1 - POWER) / (2 if abs(difference) < room / 10 else 1)
    return runs_needed(room, spread, ALPHA, power, 1)


def runs_to_clear(reach: float, distance: float, n: int) -> int | None:
    """Runs beyond n until an interval no longer reaches across a bound, at this distance from its point.

    `reach` is how far it extends to that side; it shrinks with the root of the runs. None if > 1,000.
    """
    if not 0 < distance < math.inf or not math.isfinite(reach):
        return None
    needed = math.ceil(n * (reach / distance) ** 2)
    return max(1, needed - n) if needed <= MOST_RUNS else None


def runs_needed(distance: float, spread: float, alpha: float, power: float, groups: int) -> int | None:
    if distance <= 0 or math.isnan(spread):
        return None
    for n in range(2, MOST_RUNS + 1):
        degrees = groups * (n - 1)
        reach = t_quantile(1 - alpha, degrees) + t_quantile(power, degrees)
        if reach * spread / math.sqrt(n) <= distance:
            return n
        if n > 60:
            reach = NORMAL.inv_cdf(1 - alpha) + NORMAL.inv_cdf(power)
            needed = math.ceil((reach * spread / distance) ** 2)
            return needed if needed <= MOST_RUNS else None
    return None
