"""Figures of a run that only the probe's samples hold."""

from __future__ import annotations

import polars as pl

from rldyno.errors import Problem
from rldyno.results.load import Results


def growth_of(results: Results, trial: str, train_start_s: float) -> float | None:
    """None where the samples do not hold it."""
    try:
        return memory_growth(results.samples(trial), train_start_s)
    except Problem:
        return None


def memory_growth(samples: pl.DataFrame, train_start_s: float) -> float | None:
    """Mean resident set over the last quarter of training, over that of its second quarter.

    The first quarter is left out: replay memory and allocators fill up there.
    """
    rss = samples.filter(pl.col("time_ns") >= train_start_s * 1e9)["rss_bytes"].drop_nulls().to_numpy()
    if len(rss) < 8:
        return None
    quarter = len(rss) // 4
    return float(rss[-quarter:].mean() / rss[quarter : 2 * quarter].mean())
