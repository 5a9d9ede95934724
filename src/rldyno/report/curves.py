"""Series of many runs as one band per contestant: the median over seeds between its quartiles."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

from rldyno.answers.groups import Group
from rldyno.report.series import Series, read_series
from rldyno.results.load import Results
from rldyno.stats.bootstrap import Floats

# Episodes averaged for a learning curve where the study has no stop rule of its own.
SMOOTHING_EPISODES = 100
# CPU time is counted in ticks of 10 ms: over a shorter stretch a rate is mostly rounding.
SHORTEST_RATE_S = 0.5


@dataclass(frozen=True)
class Band:
    """A contestant's median (y) between its quartiles."""

    contestant: str
    x: Floats
    y: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True)
class GroupCurves:
    steps: list[Band]
    episodes: list[Band]
    time: list[Band]
    cpu: list[Band]
    memory: list[Band]
    gpu: list[Band]
    gpu_memory: list[Band]
    power: list[Band]
    use: pl.DataFrame
    """Integrals per trial, see series.USE_SCHEMA."""
    damaged: list[str]
    """What could not be read, one sentence each."""


def group_curves(results: Results, group: Group, points: int) -> GroupCurves:
    done = group.trials.filter(pl.col("status") == "done")
    series = read_series(results, done, group.stop_episodes or SMOOTHING_EPISODES)
    curves = GroupCurves([], [], [], [], [], [], [], [], series.use, series.damaged)
    for contestant, trials in contestants(group, done):
        add_bands(curves, contestant, trials, series, points)
    return curves


def add_bands(curves: GroupCurves, contestant: str, trials: list[str], series: Series, points: int) -> None:
    learning = [series.learning[trial] for trial in trials if trial in series.learning]
    usage = [series.usage[trial] for trial in trials if trial in series.usage]
    if learning:
        curves.steps.append(band(contestant, [(run.step, run.value) for run in learning], points))
        curves.episodes.append(band(contestant, [(run.episode, run.value) for run in learning], points))
        curves.time.append(band(contestant, [(run.time_s, run.value) for run in learning], points))
    if usage:
        curves.cpu.append(rate_band(contestant, [(run.time_s, run.cpu_s) for run in usage], points))
        memory = [(run.time_s, run.rss_mb) for run in usage]
        curves.memory.append(band(contestant, memory, points, hold=False))
    for bands, name in (
        (curves.gpu, "gpu_percent"),
        (curves.gpu_memory, "gpu_memory_mb"),
        (curves.power, "power_w"),
    ):
        gauged = [run.gauges[name] for run in usage if name in run.gauges]
        if gauged:
            bands.append(band(contestant, gauged, points, hold=False))


def contestants(group: Group, done: pl.DataFrame) -> Iterator[tuple[str, list[str]]]:
    """Every contestant of the group with its finished trials."""
    trials: dict[str, list[str]] = {row.contestant: [] for row in group.rows}
    for contestant, trial in zip(done["contestant"], done["trial"], strict=True):
        trials[contestant].append(trial)
    yield from trials.items()


def band(contestant: str, runs: list[tuple[Floats, Floats]], points: int, hold: bool = True) -> Band:
    """Median and quartiles of (x, y) runs on a common grid from 0 to the end of the longest.

    With `hold` a run that has ended keeps its last value: leaving it out would leave only the slow runs.
    """
    grid = np.linspace(0, max(x[-1] for x, _ in runs), points)
    values = np.stack([np.interp(grid, x, y, left=np.nan, right=None if hold else np.nan) for x, y in runs])
    return quartile_band(contestant, grid, values)


def rate_band(contestant: str, runs: list[tuple[Floats, Floats]], points: int) -> Band:
    """Growth of a cumulative count per unit of x, in percent, between the points of a common grid."""
    end = max(x[-1] for x, _ in runs)
    edges = np.linspace(0, end, min(points, max(8, int(end / SHORTEST_RATE_S))) + 1)
    # Every count is zero at the spawn, which no sample sees.
    zero = np.zeros(1)
    totals = np.stack(
        [
            np.interp(edges, np.concatenate([zero, x]), np.concatenate([zero, y]), right=np.nan)
            for x, y in runs
        ]
    )
    # A process that ends takes its share of the sum with it: no growth, not a negative one.
    rates = np.maximum(0, np.diff(totals)) / np.diff(edges) * 100
    return quartile_band(contestant, (edges[:-1] + edges[1:]) / 2, rates)


def quartile_band(contestant: str, grid: Floats, values: Floats) -> Band:
    """Where at least half of the runs have a value."""
    present = np.isfinite(values).sum(axis=0) * 2 >= len(values)
    low, middle, high = quartiles(values[:, present])
    return Band(contestant, grid[present], middle, low, high)


def quartiles(values: Floats) -> tuple[Floats, Floats, Floats]:
    """Of each column, NaN left out; as numpy.nanquantile, which takes a hundred times as long."""
    ordered = np.sort(values, axis=0)
    last = np.isfinite(values).sum(axis=0) - 1
    found = []
    for share in (0.25, 0.5, 0.75):
        place = share * last
        below = np.floor(place).astype(np.intp)
        above = np.minimum(below + 1, last)
        start, end = (np.take_along_axis(ordered, index[None], axis=0)[0] for index in (below, above))
        found.append(start + (place - below) * (end - start))
    return found[0], found[1], found[2]
