"""Series of many runs as one band per contestant: the median over seeds between its quartiles."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
import polars as pl

from rldyno.answers.table import Group
from rldyno.errors import Problem
from rldyno.results import Results
from rldyno.stats.bootstrap import Floats

# Episodes averaged for a learning curve where the study has no stop rule of its own.
SMOOTHING_EPISODES = 100
# CPU time is counted in ticks of 10 ms: over a shorter stretch a rate is mostly rounding.
SHORTEST_RATE_S = 0.5
Run = TypeVar("Run")

BAND_SCHEMA = {
    "contestant": pl.String,
    "x": pl.Float64,
    "y": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
}


@dataclass
class GroupCurves:
    """Bands of one group; each frame has the columns of BAND_SCHEMA."""

    steps: pl.DataFrame
    episodes: pl.DataFrame
    time: pl.DataFrame
    cpu: pl.DataFrame
    memory: pl.DataFrame
    damaged: list[str] = field(default_factory=list)
    """What could not be read, one sentence each."""


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


def group_curves(results: Results, group: Group, points: int) -> GroupCurves:
    damaged: list[str] = []
    window = group.stop_episodes or SMOOTHING_EPISODES
    steps, episodes, time, cpu, memory = [], [], [], [], []
    for contestant, trials in contestants(group):
        learning = read_each(trials, lambda trial: read_learning(results, trial, window), damaged)
        usage = read_each(trials, lambda trial: read_usage(results, trial), damaged)
        steps.append(band(contestant, [(run.step, run.value) for run in learning], points))
        episodes.append(band(contestant, [(run.episode, run.value) for run in learning], points))
        time.append(band(contestant, [(run.time_s, run.value) for run in learning], points))
        cpu.append(rate_band(contestant, [(run.time_s, run.cpu_s) for run in usage], points))
        memory.append(band(contestant, [(run.time_s, run.rss_mb) for run in usage], points, hold=False))
    return GroupCurves(
        steps=pl.concat(steps),
        episodes=pl.concat(episodes),
        time=pl.concat(time),
        cpu=pl.concat(cpu),
        memory=pl.concat(memory),
        damaged=damaged,
    )


def contestants(group: Group) -> Iterator[tuple[str, list[str]]]:
    """Every contestant of the group with its finished trials."""
    done = group.trials.filter(pl.col("status") == "done")
    for row in group.rows:
        yield row.contestant, done.filter(pl.col("contestant") == row.contestant)["trial"].to_list()


def read_each(trials: list[str], read: Callable[[str], Run | None], damaged: list[str]) -> list[Run]:
    runs = []
    for trial in trials:
        try:
            run = read(trial)
        except Problem as problem:
            damaged.append(problem.message)
        else:
            if run is not None:
                runs.append(run)
    return runs


def read_learning(results: Results, trial: str, window: int) -> Learning | None:
    frame = results.episodes(trial).select("step", "time_ns", "return").drop_nulls()
    if frame.is_empty():
        return None
    return Learning(
        step=frame["step"].to_numpy().astype(np.float64),
        episode=np.arange(1.0, len(frame) + 1),
        time_s=frame["time_ns"].to_numpy() / 1e9,
        value=running_mean(frame["return"].to_numpy(), window),
    )


def running_mean(values: Floats, window: int) -> Floats:
    """Mean of the last `window` values, of fewer at the beginning."""
    total = np.concatenate([[0.0], np.cumsum(values)])
    end = np.arange(1, len(values) + 1)
    start = np.maximum(0, end - window)
    return np.asarray((total[end] - total[start]) / (end - start))


def read_usage(results: Results, trial: str) -> Usage | None:
    frame = results.samples(trial)
    frame = frame.select("time_ns", "cpu_user_ns", "cpu_system_ns", "rss_bytes").drop_nulls()
    # The last sample may find the process already gone.
    frame = frame.filter(pl.col("rss_bytes") > 0)
    if len(frame) < 2:
        return None
    return Usage(
        time_s=frame["time_ns"].to_numpy() / 1e9,
        cpu_s=(frame["cpu_user_ns"] + frame["cpu_system_ns"]).to_numpy() / 1e9,
        rss_mb=frame["rss_bytes"].to_numpy() / 1e6,
    )


def band(contestant: str, runs: list[tuple[Floats, Floats]], points: int, hold: bool = True) -> pl.DataFrame:
    """Median and quartiles of (x, y) runs on a common grid from 0 to the end of the longest.

    With `hold` a run that has ended keeps its last value: leaving it out would leave only the slow runs.
    """
    if not runs:
        return pl.DataFrame(schema=BAND_SCHEMA)
    grid = np.linspace(0, max(x[-1] for x, _ in runs), points)
    values = np.stack([np.interp(grid, x, y, left=np.nan, right=None if hold else np.nan) for x, y in runs])
    return quartiles(contestant, grid, values)


def rate_band(contestant: str, runs: list[tuple[Floats, Floats]], points: int) -> pl.DataFrame:
    """Growth of a cumulative count per unit of x, in percent, between the points of a common grid."""
    if not runs:
        return pl.DataFrame(schema=BAND_SCHEMA)
    end = max(x[-1] for x, _ in runs)
    edges = np.linspace(0, end, min(points, max(8, int(end / SHORTEST_RATE_S))) + 1)
    # Every count is zero at the spawn, which no sample sees.
    totals = np.stack([np.interp(edges, np.r_[0, x], np.r_[0, y], right=np.nan) for x, y in runs])
    # A process that ends takes its share of the sum with it: no growth, not a negative one.
    rates = np.maximum(0, np.diff(totals)) / np.diff(edges) * 100
    return quartiles(contestant, (edges[:-1] + edges[1:]) / 2, rates)


def quartiles(contestant: str, grid: Floats, values: Floats) -> pl.DataFrame:
    """Where at least half of the runs have a value."""
    present = np.isfinite(values).sum(axis=0) * 2 >= len(values)
    low, middle, high = np.nanquantile(values[:, present], [0.25, 0.5, 0.75], axis=0)
    return pl.DataFrame(
        {"contestant": contestant, "x": grid[present], "y": middle, "low": low, "high": high},
        schema=BAND_SCHEMA,
    )
