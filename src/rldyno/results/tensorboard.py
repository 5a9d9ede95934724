"""Finished trials as TensorBoard event files, one run per trial: `tensorboard/<cell>/s<seed>`.

Made from the records when nothing is being measured, never by the worker: watching a run changes nothing.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rldyno.errors import Problem
from rldyno.libraries import MissingLibrary, needed_for
from rldyno.probe.metrics import sample_columns
from rldyno.records.csv_files import read_csv
from rldyno.records.directory import ResultsDirectory
from rldyno.records.files import read_json
from rldyno_rig import schema

if TYPE_CHECKING:
    import polars as pl

Json = dict[str, Any]
Floats = NDArray[np.float64]

FOLDER = "tensorboard"
# What makes two trials of one cell differ, or does not shape the computation.
NOT_CELL = (
    *("schema", "trial", "seed", "block", "backend", "interpreter"),
    *("variables", "isolated", "sample_hz", "conditions"),
)
MEANS = ("rss_bytes", "uss_bytes", "machine_cpu_percent", "machine_memory_percent")
"""Columns of the samples shown as means over a progress row, beside all the GPU's."""


class Point(NamedTuple):
    step: int
    time_ns: int
    values: dict[str, float]
    """Tag → value."""


class EventFiles(NamedTuple):
    trials: int
    kept: int
    """Whose event files were there already."""
    seconds: float

    @property
    def sentence(self) -> str:
        noun = "event file" if self.trials == 1 else "event files"
        each = f", {1000 * self.seconds / self.trials:.0f} ms each" if self.trials else ""
        kept = f"; {self.kept} {'was' if self.kept == 1 else 'were'} there already" if self.kept else ""
        return f"{self.trials} {noun} written{each}{kept}"


def write_all(root: Path, print_line: Callable[[str], None] = lambda line: None) -> EventFiles:
    """The event files of every trial that has ended and has none yet."""
    results = ResultsDirectory(root)
    started = time.perf_counter()
    trials = kept = 0
    for trial in results.read_manifest().trials:
        home = results.trial(trial)
        try:
            made = write_trial(home, root / FOLDER)
        except MissingLibrary:
            raise
        except Problem as problem:
            print_line(f"{trial}: no event file: {problem.message}")
            continue
        trials += made is True
        kept += made is False
    return EventFiles(trials, kept, time.perf_counter() - started)


def write_trial(home: Path, folder: Path) -> bool | None:
    """True: written; False: it was there already; None: the trial has not ended or never ran."""
    ended = home / schema.OUTCOME_FILE
    if not ended.exists():
        return None
    requested, outcome = read_json(home / schema.TRIAL_FILE), read_json(ended)
    if not (home / schema.PROGRESS_FILE).exists():
        return None
    epoch = datetime.fromisoformat(outcome["started_at"]).timestamp()
    path = folder / cell_name(requested) / f"s{requested['seed']}" / f"events.out.tfevents.{epoch:.0f}.rldyno"
    if path.exists() and path.stat().st_mtime >= ended.stat().st_mtime:
        return False
    rows = list(points(home))
    path.parent.mkdir(parents=True, exist_ok=True)
    for earlier in path.parent.glob("events.out.tfevents.*"):
        earlier.unlink()  # of an attempt that was run again: two files would be drawn as one curve
    write_events(path, rows, epoch)
    return True


def cell_name(requested: Json) -> str:
    """`numpy-eager.dqn.CartPole-v1.cpu.1c2f…`: its hash differs with hyper-parameters and cores."""
    content = {name: value for name, value in requested.items() if name not in NOT_CELL}
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:8]
    slug, _, _ = str(requested["trial"]).rpartition(".s")
    return f"{slug}.{digest}"


def write_events(path: Path, rows: Iterable[Point], epoch: float) -> None:
    """An event file as TensorBoard's own writers make it; it gets its name when it is whole."""
    with needed_for("TensorBoard event files"):
        from tensorboardX.proto.event_pb2 import Event
        from tensorboardX.proto.summary_pb2 import Summary
        from tensorboardX.record_writer import RecordWriter

    temporary = path.with_name(f".{path.name.replace('tfevents', 'part')}")
    writer = RecordWriter(str(temporary))
    try:
        writer.write(Event(wall_time=epoch, file_version="brain.Event:2").SerializeToString())
        for row in rows:
            values = [Summary.Value(tag=tag, simple_value=value) for tag, value in row.values.items()]
            event = Event(wall_time=epoch + row.time_ns / 1e9, step=row.step, summary=Summary(value=values))
            writer.write(event.SerializeToString())
    finally:
        writer.close()
    temporary.replace(path)


def points(home: Path) -> Iterator[Point]:
    """Episodes as they ended, then one point per row of progress: learning, speed, phases, resources."""
    episodes = read_csv(home / schema.EPISODES_FILE, schema.EPISODE_COLUMNS)
    for step, time_ns, value in episodes.select("step", "time_ns", "return").iter_rows():
        yield Point(step, time_ns, {"return/episode": value})
    progress = read_csv(home / schema.PROGRESS_FILE, schema.PROGRESS_COLUMNS)
    samples = read_csv(home / schema.SAMPLES_FILE, sample_columns())
    resources = resource_means(progress["time_ns"].to_numpy().astype(np.float64), samples)
    earlier: Json | None = None
    for index, row in enumerate(progress.iter_rows(named=True)):
        values = {"return/mean": row["return_mean"], "loss": row["loss"], **rates(earlier, row)}
        values |= {f"resources/{name}": float(column[index]) for name, column in resources.items()}
        known = {tag: value for tag, value in values.items() if value is not None and np.isfinite(value)}
        yield Point(row["step"], row["time_ns"], known)
        earlier = row


def rates(earlier: Json | None, row: Json) -> dict[str, float]:
    """Steps per second and the share of every phase since the row before."""
    spent = {
        phase: row[f"{phase}_ns"] - (earlier[f"{phase}_ns"] if earlier else 0) for phase in schema.PHASES
    }
    total = sum(spent.values())
    if total <= 0:
        return {}
    steps = row["step"] - (earlier["step"] if earlier else 0)
    shares = {f"phases/{phase}": spent_ns / total for phase, spent_ns in spent.items()}
    return {"speed/steps_per_s": steps / (total / 1e9), **shares}


def resource_means(ends: Floats, samples: pl.DataFrame) -> dict[str, Floats]:
    """Figures of the probe over the second that ends at each of these times; NaN where nothing was read."""
    times = samples["time_ns"].to_numpy().astype(np.float64)
    if not len(times) or not len(ends):
        return {}
    spent = (samples["cpu_user_ns"] + samples["cpu_system_ns"]).to_numpy().astype(np.float64)
    starts = np.concatenate([[max(0.0, ends[0] - 1e9)], ends[:-1]])
    used = np.interp(ends, times, spent) - np.interp(starts, times, spent)
    with np.errstate(invalid="ignore", divide="ignore"):
        found = {"cpu_percent": 100.0 * used / (ends - starts)}
    for name in samples.columns:
        if name in MEANS or name.startswith("gpu_"):
            column = samples[name].to_numpy().astype(np.float64)
            if np.isfinite(column).any():
                found[name] = means(times, column, starts, ends)
    return found


def means(times: Floats, values: Floats, starts: Floats, ends: Floats) -> Floats:
    """Mean of the readings in each interval (start, end]; NaN without one."""
    known = np.isfinite(values)
    sums = np.concatenate([[0.0], np.cumsum(values[known])])
    first, last = (np.searchsorted(times[known], edge, side="right") for edge in (starts, ends))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray((sums[last] - sums[first]) / (last - first))
