"""Figures of a run that only the probe's samples hold."""

from __future__ import annotations

import numpy as np
import polars as pl

from rldyno.errors import Problem
from rldyno.results import Results


def from_samples(results: Results, trial: str, train_start_s: float, name: str) -> float | None:
    """memory_growth, energy, gpu or gpu_memory; None where the samples do not hold it."""
    try:
        samples = results.samples(trial)
    except Problem:
        return None
    if name == "memory_growth":
        return memory_growth(samples, train_start_s)
    if name == "energy":
        return energy_joules(samples)
    column = {"gpu": "gpu_percent", "gpu_memory": "gpu_memory_bytes"}[name]
    training = samples.filter(pl.col("time_ns") >= train_start_s * 1e9)[column].drop_nulls()
    if not len(training):
        return None
    return float(np.mean(training.to_numpy()) if name == "gpu" else np.max(training.to_numpy()))


def memory_growth(samples: pl.DataFrame, train_start_s: float) -> float | None:
    """Mean resident set over the last quarter of training, over that of its second quarter.

    The first quarter is left out: replay memory and allocators fill up there.
    """
    rss = samples.filter(pl.col("time_ns") >= train_start_s * 1e9)["rss_bytes"].drop_nulls().to_numpy()
    if len(rss) < 8:
        return None
    quarter = len(rss) // 4
    return float(rss[-quarter:].mean() / rss[quarter : 2 * quarter].mean())


def energy_joules(samples: pl.DataFrame) -> float | None:
    """The counter's rise over the run."""
    counter = samples["energy_joules"].drop_nulls()
    return float(counter[-1] - counter[0]) if len(counter) > 1 else None
