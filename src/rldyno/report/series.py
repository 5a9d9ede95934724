"""The series of many trials, read together; each trial's integrals as liu2022 draws them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
import polars as pl

from rldyno.records import files as records
from rldyno.results.integrals import NAMES, integrals
from rldyno.results.load import Results
from rldyno.stats.bootstrap import Floats
from rldyno_rig import schema

EPISODES = ("step", "time_ns", "return")
SAMPLES = (
    "time_ns",
    "cpu_user_ns",
    "cpu_system_ns",
    "rss_bytes",
    "machine_cpu_percent",
    "machine_memory_percent",
    "gpu_percent",
    "gpu_memory_bytes",
    "gpu_power_w",
    "energy_joules",
)
# Gauge → (column, what its unit is in the chart's).
GAUGES = {
    "gpu_percent": ("gpu_percent", 1.0),
    "gpu_memory_mb": ("gpu_memory_bytes", 1e-6),
    "power_w": ("gpu_power_w", 1.0),
}
USE_SCHEMA = {
    "trial": pl.String,
    **dict.fromkeys(NAMES, pl.Float64),
    "memory_percent": pl.Float64,
    "gpu_percent": pl.Float64,
    "gpu_memory_mb": pl.Float64,
    "power_w": pl.Float64,
    "energy_j": pl.Float64,
}
Columns = dict[str, Floats]
Run = TypeVar("Run")


@dataclass(frozen=True)
class Learning:
    """One run: the running mean of its returns at the end of every episode."""

    step: Floats
    episode: Floats
    time_s: Floats
    value: Floats


@dataclass(frozen=True)
class Usage:
    """One run as the probe saw it; CPU time is cumulative."""

    time_s: Floats
    cpu_s: Floats
    rss_mb: Floats
    gauges: dict[str, tuple[Floats, Floats]]
    """Gauge → (time in s, reading), of those that this machine has."""


@dataclass(frozen=True)
class Series:
    """What the trials of one group left behind, by trial; a trial without usable rows is missing."""

    learning: dict[str, Learning]
    usage: dict[str, Usage]
    use: pl.DataFrame
    """One row per trial with the columns of USE_SCHEMA."""
    damaged: list[str]
    """What could not be read, one sentence each."""


def read_series(results: Results, trials: pl.DataFrame, window: int) -> Series:
    """Of finished trials. `window`: how many episodes a learning curve's mean is taken over."""
    names = trials["trial"].to_list()
    home = records.Results(results.directory)
    damaged: list[str] = []

    def read(file: str, columns: Sequence[str], wanted: Sequence[str]) -> list[Columns]:
        paths = [home.trial(name) / file for name in names]
        return read_columns(paths, columns, wanted, damaged)

    episodes = read(schema.EPISODES_FILE, schema.EPISODE_COLUMNS, EPISODES)
    samples = read(schema.SAMPLES_FILE, schema.SAMPLE_COLUMNS, SAMPLES)
    lasted = trials.select("wall_s", "steps").iter_rows()
    use = [
        {"trial": name, **use_of(played, seen, run_s, steps)}
        for name, played, seen, (run_s, steps) in zip(names, episodes, samples, lasted, strict=True)
    ]
    return Series(
        learning=present(names, episodes, lambda columns: learning(columns, window)),
        usage=present(names, samples, usage),
        use=pl.DataFrame(use, schema=USE_SCHEMA),
        damaged=damaged,
    )


def read_columns(
    paths: Sequence[Path], columns: Sequence[str], wanted: Sequence[str], damaged: list[str]
) -> list[Columns]:
    """Of each file its wanted columns, NaN where nothing was measured."""
    frame, lengths, problems = records.read_csvs(paths, columns, wanted)
    damaged += [problem.message for problem in problems]
    whole = {name: frame[name].cast(pl.Float64).to_numpy() for name in wanted}
    ends = np.cumsum(lengths)
    return [
        {name: values[end - length : end] for name, values in whole.items()}
        for end, length in zip(ends, lengths, strict=True)
    ]


def present(
    names: Sequence[str], series: Sequence[Columns], made: Callable[[Columns], Run | None]
) -> dict[str, Run]:
    runs = {name: made(columns) for name, columns in zip(names, series, strict=True)}
    return {name: run for name, run in runs.items() if run is not None}


def learning(columns: Columns, window: int) -> Learning | None:
    kept = np.isfinite(columns["step"] + columns["time_ns"] + columns["return"])
    if not kept.any():
        return None
    return Learning(
        step=columns["step"][kept],
        episode=np.arange(1.0, kept.sum() + 1),
        time_s=columns["time_ns"][kept] / 1e9,
        value=running_mean(columns["return"][kept], window),
    )


def running_mean(values: Floats, window: int) -> Floats:
    """Mean of the last `window` values, of fewer at the beginning."""
    total = np.concatenate([[0.0], np.cumsum(values)])
    end = np.arange(1, len(values) + 1)
    start = np.maximum(0, end - window)
    return np.asarray((total[end] - total[start]) / (end - start))


def usage(columns: Columns) -> Usage | None:
    cpu_ns = columns["cpu_user_ns"] + columns["cpu_system_ns"]
    # The last sample may find the process already gone.
    kept = np.isfinite(cpu_ns) & (columns["rss_bytes"] > 0)
    if kept.sum() < 2:
        return None
    return Usage(
        time_s=columns["time_ns"][kept] / 1e9,
        cpu_s=cpu_ns[kept] / 1e9,
        rss_mb=columns["rss_bytes"][kept] / 1e6,
        gauges=gauges(columns),
    )


def gauges(columns: Columns) -> dict[str, tuple[Floats, Floats]]:
    found = {}
    for name, (column, scale) in GAUGES.items():
        known = np.isfinite(columns[column])
        if known.any():
            found[name] = columns["time_ns"][known] / 1e9, columns[column][known] * scale
    return found


def use_of(
    episodes: Columns, samples: Columns, run_s: float | None, steps: int | None
) -> dict[str, float | None]:
    """liu2022's integrals over the run, and the same per environment step; means for seong2024's figures."""
    gpu_memory = mean(samples["gpu_memory_bytes"])
    percent = samples["machine_cpu_percent"], samples["machine_memory_percent"]
    return {
        **integrals(episodes["return"], samples["time_ns"] / 1e9, *percent, run_s, steps),
        "memory_percent": mean(samples["machine_memory_percent"]),
        "gpu_percent": mean(samples["gpu_percent"]),
        "gpu_memory_mb": gpu_memory / 1e6 if gpu_memory is not None else None,
        "power_w": mean(samples["gpu_power_w"]),
        "energy_j": rise(samples["energy_joules"]),
    }


def rise(counter: Floats) -> float | None:
    """Of a counter over the run."""
    known = counter[np.isfinite(counter)]
    return float(known[-1] - known[0]) if len(known) > 1 else None


def mean(values: Floats) -> float | None:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else None
