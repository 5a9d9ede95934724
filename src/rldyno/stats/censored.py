"""Time to an event that some runs never see: they are censored, neither dropped nor given a number."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import special

from rldyno.stats.moments import Floats


def missed_words(reached: int, n: int) -> str | None:
    if reached == n:
        return None
    return f"not reached in {n - reached} of {n}"


def stack(times: Floats, reached: NDArray[np.bool_] | Floats) -> Floats:
    """One row (time, 1.0 if reached) per run."""
    return np.stack([times.astype(np.float64), reached.astype(np.float64)], axis=-1)


def as_times(values: Floats) -> Floats:
    """Rows (time, reached) of values that may be such rows already."""
    return values if values.ndim == 2 else stack(values, np.ones(len(values), dtype=bool))


def all_reached(runs: Floats) -> bool:
    return bool((runs[:, 1] > 0).all())


def out_of_episodes(runs: Floats, used_up: NDArray[np.bool_]) -> Floats:
    """Times or steps of one contestant whose runs end after as many episodes, as if the failed ones among
    them had been watched as long as its longest run.

    Agents that learn nothing may play short episodes, and are over early: a median that takes them for cut
    short at random would be that of the others.
    """
    times, failed = runs[:, 0], used_up & (runs[:, 1] == 0)
    longest = times.max(initial=0.0, where=~np.isnan(times))
    return stack(np.where(failed, longest, times), runs[:, 1])


def survival_median(runs: Floats) -> Floats:
    """Kaplan–Meier median of `[..., run, (time, reached)]`: the time by which half have seen the event.

    S(t) = ∏ (1 − 1 / at risk) over the events up to t. Where S is exactly ½ between two events the median is
    their mean, so that without censoring it is the ordinary median.
    """
    times, events = runs[..., 0], runs[..., 1] > 0
    # At equal times the event comes first.
    order = np.lexsort((~events, times), axis=-1)
    times, events = np.take_along_axis(times, order, -1), np.take_along_axis(events, order, -1)
    n = times.shape[-1]
    at_risk = n - np.arange(n)
    survival = np.cumprod(np.where(events, 1 - 1 / at_risk, 1.0), axis=-1)
    event_times = np.where(events, times, np.inf)
    first = np.where(survival <= 0.5 + 1e-9, event_times, np.inf).min(axis=-1)
    beyond = np.where(survival < 0.5 - 1e-9, event_times, np.inf).min(axis=-1)
    exactly_half = (np.abs(survival - 0.5) < 1e-9).any(axis=-1)
    return np.asarray(np.where(exactly_half, (first + beyond) / 2, first))


def equally_long(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """Both groups as if watched no longer than the shortest run without the event: what came later is missed.

    A slow contestant with a budget of time takes fewer steps: that alone must not look like failure.
    """
    both = np.concatenate([a, b])
    end = both[both[:, 1] == 0, 0].min(initial=np.inf)
    return stack(a[:, 0], (a[:, 1] > 0) & (a[:, 0] <= end)), stack(b[:, 0], (b[:, 1] > 0) & (b[:, 0] <= end))


def ordered_ends(runs: Floats) -> tuple[Floats, Floats]:
    """The least and the greatest times that the runs may have had, each in order: a censored run took longer
    than it was watched, perhaps for ever.
    """
    return np.sort(runs[:, 0]), np.sort(np.where(runs[:, 1] > 0, runs[:, 0], np.inf))


def median_bounds(runs: Floats, level: float) -> tuple[float, float, bool]:
    """The k-th time from below and from above, and whether they bound the median at `level`.

    A run lies below the median with chance ½, so that fewer than k of n do with P(Bin(n, ½) < k), whatever
    the distribution of the times. Where no k will do (n < 6 for 95 %), the bounds are the range of the runs.
    """
    runs = as_times(runs)
    (least, greatest), k = ordered_ends(runs), order_rank(len(runs), level)
    at = max(k, 1)
    return float(least[at - 1]), float(greatest[-at]), k > 0


@lru_cache(maxsize=1024)
def order_rank(n: int, level: float) -> int:
    """The largest k with P(Bin(n, ½) < k) ≤ (1 − level) / 2; 0 where even k = 1 is too many."""
    tails = special.bdtr(np.arange(n), n, 0.5)
    return int((tails <= (1 - level) / 2).sum())


def median_draws(runs: Floats, rng: np.random.Generator, draws: int) -> Floats:
    """Where the median may be: between the j-th and the next time with the chance that j of n lie below it.

    Of the two, the one that is farther from the middle: percentiles of the draws are the bounds above.
    Beyond the first time there is nothing but 0, beyond the last infinity.
    """
    n = len(runs)
    least, greatest = ordered_ends(runs)
    below = np.arange(n + 1)
    outer = np.where(
        2 * below < n,
        np.concatenate([[0.0], least])[below],
        np.concatenate([greatest, [np.inf]])[below],
    )
    if n % 2 == 0:
        outer[n // 2] = survival_median(runs)
    return np.asarray(outer[rng.binomial(n, 0.5, draws)])
