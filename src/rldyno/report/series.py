"""Series of many runs, read once: as one band per contestant, and as values of single runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from rldyno.answers.groups import Group
from rldyno.probe import metrics
from rldyno.records import csv_files
from rldyno.records.csv_files import read_csvs
from rldyno.records.directory import ResultsDirectory
from rldyno.records.status import DONE
from rldyno.results.load import Results
from rldyno.stats.moments import Floats
from rldyno_rig import schema

# Episodes averaged for a learning curve where the study has no stop rule of its own.
SMOOTHING_EPISODES = 100
# CPU time is counted in ticks of 10 ms: over a shorter stretch a rate is mostly rounding.
SHORTEST_RATE_S = 0.5
# Lines closer than this share of the height of a chart, about their width, hide one another.
LINE_SHARE = 0.01
# Over how much of their common way they must do so to be called the same.
COMMON_SHARE = 0.8
# How many times as far apart they may be elsewhere.
FARTHEST = 5
Columns = Mapping[str, Floats]
Points = tuple[Floats, Floats]
"""(x, y) of one run."""


@dataclass(frozen=True)
class Run:
    """The series of one run: columns by name, NaN where nothing was measured."""

    trial: str
    episodes: Columns
    samples: Columns
    progress: Columns
    window: int
    """How many episodes the mean return is taken over."""
    wall_s: float | None
    steps: int | None
    gpu_memory_bytes: int | None = None
    """That the GPUs of the trial have, together."""

    @cached_property
    def learning(self) -> Columns | None:
        """`step`, `episode`, `time_s` and `return` (its running mean) at the end of every episode."""
        columns = self.episodes
        kept = np.isfinite(columns["step"] + columns["time_ns"] + columns["return"])
        if not kept.any():
            return None
        return {
            "step": columns["step"][kept],
            "episode": np.arange(1.0, kept.sum() + 1),
            "time_s": columns["time_ns"][kept] / 1e9,
            "return": running_mean(columns["return"][kept], self.window),
        }

    @cached_property
    def usage(self) -> Columns | None:
        """`time_s`, `cpu_s` (cumulative) and `rss_mb` of the processes; None with fewer than two samples."""
        columns = self.samples
        cpu_ns = columns["cpu_user_ns"] + columns["cpu_system_ns"]
        # The last sample may find the process already gone.
        kept = np.isfinite(cpu_ns) & (columns["rss_bytes"] > 0)
        if kept.sum() < 2:
            return None
        return {
            "time_s": columns["time_ns"][kept] / 1e9,
            "cpu_s": cpu_ns[kept] / 1e9,
            "rss_mb": columns["rss_bytes"][kept] / 1e6,
        }

    def sampled(self, column: str, scale: float = 1.0) -> Points | None:
        """A column of the samples against time, where it was read."""
        known = np.isfinite(self.samples[column])
        if self.usage is None or not known.any():
            return None
        return self.samples["time_ns"][known] / 1e9, self.samples[column][known] * scale


@dataclass(frozen=True)
class Band:
    """A contestant's median (y) between its quartiles."""

    contestant: str
    x: Floats
    y: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True)
class Curve:
    """What a chart of bands shows: a series of every run, and how the runs of a contestant become a band."""

    id: str
    """Of the chart."""
    title: str
    caption: str
    x_title: str
    y_title: str
    points: Callable[[Run], Points | None]
    """None where the run has nothing to draw."""
    join: Callable[[str, Sequence[Points], int], Band | None]
    """(contestant, its runs, number of points) → its band; None where its runs never go on together."""
    episodes: tuple[str, ...] = ()
    """Columns of that file which it needs."""
    samples: tuple[str, ...] = ()
    progress: tuple[str, ...] = ()
    zero: bool = True
    """Whether the y axis begins at zero."""
    to_threshold: bool = False
    """Whether the study's threshold is drawn across it."""
    external: bool = False
    """Whether curves of others may be laid over it."""


@dataclass(frozen=True)
class RunValues:
    """Values of one run that only its series hold."""

    names: tuple[str, ...]
    of: Callable[[Run], Mapping[str, float | None]]
    episodes: tuple[str, ...] = ()
    samples: tuple[str, ...] = ()
    progress: tuple[str, ...] = ()


@dataclass(frozen=True)
class SharedValues:
    """Values of runs that depend on the other runs of their comparison."""

    names: tuple[str, ...]
    of: Callable[[Sequence[Run]], Sequence[Mapping[str, float | None]]]
    """All runs of a comparison → the values of each."""
    episodes: tuple[str, ...] = ()
    samples: tuple[str, ...] = ()
    progress: tuple[str, ...] = ()


@dataclass(frozen=True)
class GroupSeries:
    """What the finished trials of one comparison left behind."""

    bands: Mapping[str, Sequence[Band]]
    """Curve → a band for each contestant that has one."""
    values: pl.DataFrame
    """One row per trial: `trial` and the names of all run values."""
    damaged: Sequence[str]
    """What could not be read, one sentence each."""


def read_group(
    results: Results,
    group: Group,
    curves: Sequence[Curve],
    values: Sequence[RunValues | SharedValues],
    points: int,
) -> GroupSeries:
    """Read the files of the group's finished trials; `points` is the most that a curve keeps."""
    damaged: list[str] = []
    done = group.trials.filter(pl.col("status") == DONE)
    runs = read_runs(results, done, (*curves, *values), group.stop_episodes or SMOOTHING_EPISODES, damaged)
    by_contestant: dict[str, list[Run]] = {row.contestant: [] for row in group.rows}
    for contestant, run in zip(done["contestant"], runs, strict=True):
        by_contestant[contestant].append(run)
    bands: dict[str, list[Band]] = {curve.id: [] for curve in curves}
    for contestant, members in by_contestant.items():
        for curve in curves:
            found = [drawn for run in members if (drawn := curve.points(run)) is not None]
            if found and (joined := curve.join(contestant, found, points)) is not None:
                bands[curve.id].append(joined)
    rows: list[dict[str, Any]] = [{"trial": run.trial} for run in runs]
    for item in values:
        found_values = item.of(runs) if isinstance(item, SharedValues) else [item.of(run) for run in runs]
        rows = [row | dict(one) for row, one in zip(rows, found_values, strict=True)]
    names = {name: pl.Float64 for item in values for name in item.names}
    return GroupSeries(bands, pl.DataFrame(rows, schema={"trial": pl.String, **names}), damaged)


def read_runs(
    results: Results,
    trials: pl.DataFrame,
    wanted: Sequence[Curve | RunValues | SharedValues],
    window: int,
    damaged: list[str],
) -> list[Run]:
    """The series of finished trials, in their order, with the columns that are wanted of each file."""
    files: dict[str, tuple[str, csv_files.Columns]] = {
        "episodes": (schema.EPISODES_FILE, schema.EPISODE_COLUMNS),
        "samples": (schema.SAMPLES_FILE, metrics.sample_columns()),
        "progress": (schema.PROGRESS_FILE, schema.PROGRESS_COLUMNS),
    }
    home = ResultsDirectory(results.directory)
    names = trials["trial"].to_list()
    read: dict[str, list[Columns]] = {}
    for kind, (file, columns) in files.items():
        chosen = tuple(dict.fromkeys(name for item in wanted for name in getattr(item, kind)))
        paths = [home.trial(name) / file for name in names]
        frame, lengths, problems = read_csvs(paths, columns, chosen) if chosen else (None, [], [])
        damaged += [problem.message for problem in problems]
        if frame is None:
            read[kind] = [{} for _ in names]
            continue
        whole = {name: frame[name].cast(pl.Float64).to_numpy() for name in chosen}
        read[kind] = [
            {name: values[end - length : end] for name, values in whole.items()}
            for end, length in zip(np.cumsum(lengths), lengths, strict=True)
        ]
    wholes = trials.select("wall_s", "steps", "gpu_memory_total_bytes").iter_rows()
    return [
        Run(name, episodes, samples, progress, window, *whole)
        for name, episodes, samples, progress, whole in zip(
            names, read["episodes"], read["samples"], read["progress"], wholes, strict=True
        )
    ]


def running_mean(values: Floats, window: int) -> Floats:
    """Mean of the last `window` values, of fewer at the beginning."""
    total = np.concatenate([[0.0], np.cumsum(values)])
    end = np.arange(1, len(values) + 1)
    start = np.maximum(0, end - window)
    return np.asarray((total[end] - total[start]) / (end - start))


def band(contestant: str, runs: Sequence[Points], points: int) -> Band:
    """Median and quartiles of all runs, from where the last has started to the end of the longest.

    A run that has ended keeps its last value: leaving it out would leave only the slow runs. So every point
    of the band is made of the same runs, and runs that rise never make a median that falls.
    """
    grid = np.linspace(max(x[0] for x, _ in runs), max(x[-1] for x, _ in runs), points)
    return quartile_band(contestant, grid, np.stack([np.interp(grid, x, y) for x, y in runs]))


def band_while_running(contestant: str, runs: Sequence[Points], points: int) -> Band | None:
    """As `band`, as long as all of the runs go on: one that has ended uses nothing, and holds nothing."""
    start, end = max(x[0] for x, _ in runs), min(x[-1] for x, _ in runs)
    if start > end:
        return None
    grid = np.linspace(start, end, points)
    return quartile_band(contestant, grid, np.stack([np.interp(grid, x, y) for x, y in runs]))


def rate_band(contestant: str, runs: Sequence[Points], points: int) -> Band:
    """Growth of a cumulative count per unit of x, in percent, while all of the runs go on."""
    end = min(x[-1] for x, _ in runs)
    edges = np.linspace(0, end, min(points, max(8, int(end / SHORTEST_RATE_S))) + 1)
    totals = np.stack([from_zero(edges, x, y) for x, y in runs])
    # A process that ends takes its share of the sum with it: no growth, not a negative one.
    rates = np.maximum(0, np.diff(totals)) / np.diff(edges) * 100
    return quartile_band(contestant, (edges[:-1] + edges[1:]) / 2, rates)


def from_zero(edges: Floats, x: Floats, y: Floats) -> Floats:
    """A cumulative count at the edges: it is zero at the start, which no row of a file shows."""
    zero = np.zeros(1)
    return np.asarray(np.interp(edges, np.concatenate([zero, x]), np.concatenate([zero, y])))


def quartile_band(contestant: str, grid: Floats, values: Floats) -> Band:
    """Of values by run and point; every run has one at every point."""
    low, middle, high = quartiles(values)
    return Band(contestant, grid, middle, low, high)


def coincident(bands: Sequence[Band]) -> list[tuple[str, ...]]:
    """Contestants whose medians lie on one another for most of their common way: nobody could see all."""
    top = max((float(band.y.max()) for band in bands), default=0.0)
    height = top - min([0.0, *(float(band.y.min()) for band in bands)])
    groups: list[list[Band]] = []
    for band in bands:
        for group in groups:
            if same_line(group[0], band, LINE_SHARE * height):
                group.append(band)
                break
        else:
            groups.append([band])
    return [tuple(band.contestant for band in group) for group in groups if len(group) > 1]


def same_line(one: Band, other: Band, within: float) -> bool:
    start, end = max(one.x[0], other.x[0]), min(one.x[-1], other.x[-1])
    if end <= start:
        return False
    grid = np.linspace(start, end, 50)
    apart = np.abs(np.interp(grid, one.x, one.y) - np.interp(grid, other.x, other.y))
    return bool((apart <= within).mean() >= COMMON_SHARE and apart.max() <= FARTHEST * within)


def quartiles(values: Floats) -> tuple[Floats, Floats, Floats]:
    """Of each column; as numpy.quantile, which takes ten times as long."""
    ordered = np.sort(values, axis=0)
    last = len(ordered) - 1
    found = []
    for share in (0.25, 0.5, 0.75):
        below, part = divmod(share * last, 1)
        start, end = ordered[int(below)], ordered[min(int(below) + 1, last)]
        found.append(start + part * (end - start))
    return found[0], found[1], found[2]
