"""Time to an event that some runs never see: they are censored, neither dropped nor given a number."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rldyno.stats.bootstrap import Estimate, Floats, Sample, ratio_estimate


def missed_words(reached: int, n: int) -> str | None:
    if reached == n:
        return None
    return f"not reached in {n - reached} of {n}"


def median_ratio(runs: Sample, base: Sample) -> Estimate | None:
    if not np.isfinite(runs.point) or not np.isfinite(base.point):
        return None
    return ratio_estimate(runs, base)


def stack(times: Floats, reached: NDArray[np.bool_]) -> Floats:
    """One row (time, 1.0 if reached) per run."""
    return np.stack([times.astype(np.float64), reached.astype(np.float64)], axis=-1)


def median(values: Floats) -> Floats:
    """Along the last axis; numpy.median takes twice as long for many small groups."""
    n = values.shape[-1]
    ordered = np.sort(values, axis=-1)
    return np.asarray((ordered[..., (n - 1) // 2] + ordered[..., n // 2]) / 2)


def survival_median(runs: Floats) -> Floats:
    """Kaplan–Meier median of `[..., run, (time, reached)]`: the time by which half have seen the event.

    S(t) = ∏ (1 − 1 / at risk) over the events up to t. Where S is exactly ½ between two events the median is
    their mean, so that without censoring it is the ordinary median.
    """
    times, events = runs[..., 0], runs[..., 1] > 0
    if events.all():
        return median(times)
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
