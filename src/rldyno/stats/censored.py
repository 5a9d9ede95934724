"""Time to an event that some runs never see: they are censored, neither dropped nor given a number."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rldyno.stats.bootstrap import Estimate, Floats, percentile_interval, resampled


@dataclass(frozen=True)
class TimeToEvent:
    """`estimate.point` is the median, infinite when too few runs saw the event, and so may its bounds be."""

    estimate: Estimate
    n: int
    reached: int

    @property
    def missed(self) -> str | None:
        if self.reached == self.n:
            return None
        return f"not reached in {self.n - self.reached} of {self.n}"


def time_to_event(times: Floats, reached: NDArray[np.bool_], rng: np.random.Generator) -> TimeToEvent:
    """Kaplan–Meier median with its bootstrap interval. `times` holds the event, or the end of the watch."""
    runs = stack(times, reached)
    n, hits = len(times), int(reached.sum())
    point = float(survival_median(runs))
    if n < 2:
        return TimeToEvent(Estimate(point, None, None, n), n, hits)
    low, high = percentile_interval(resampled(runs, rng, survival_median), n)
    return TimeToEvent(Estimate(point, low, high, n), n, hits)


def time_ratio(runs: Floats, base: Floats, rng: np.random.Generator) -> Estimate | None:
    """Ratio of two medians (of `stack`ed runs); None where a median does not exist."""
    point, base_point = float(survival_median(runs)), float(survival_median(base))
    if not np.isfinite(point) or not np.isfinite(base_point):
        return None
    n = min(len(runs), len(base))
    if n < 2:
        return Estimate(point / base_point, None, None, n)
    over, under = resampled(runs, rng, survival_median), resampled(base, rng, survival_median)
    # ∞ / ∞ bounds nothing: such a resample counts for both ends.
    with np.errstate(invalid="ignore"):
        draws = over / under
    lows, highs = (
        np.nan_to_num(draws, nan=0.0, posinf=np.inf),
        np.nan_to_num(draws, nan=np.inf, posinf=np.inf),
    )
    return Estimate(point / base_point, percentile_interval(lows, n)[0], percentile_interval(highs, n)[1], n)


def stack(times: Floats, reached: NDArray[np.bool_]) -> Floats:
    """One row (time, 1.0 if reached) per run."""
    return np.stack([times.astype(np.float64), reached.astype(np.float64)], axis=-1)


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
