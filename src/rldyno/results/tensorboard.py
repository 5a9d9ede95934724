"""Trials as TensorBoard event files, one run per trial: `tensorboard/<cell>/s<seed>`.

Made from the records, never by the worker: watching a run changes nothing. While trials run, the lab adds to
the files (`LiveEvents`), on its own CPU; `write_all` makes those that are missing.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from rldyno.errors import Problem
from rldyno.libraries import MissingLibrary
from rldyno.probe.metrics import sample_columns
from rldyno.records.attempts import TRIAL_LOCK, next_attempt
from rldyno.records.csv_files import GrowingCsv, read_csv
from rldyno.records.directory import ResultsDirectory
from rldyno.records.files import refuse_link
from rldyno.records.locks import LockedError, lock_holder, locked
from rldyno.records.trial_records import read_outcome, read_trial
from rldyno.results.event_file import FOLDER, GrowingEventFile, event_path, is_whole, write_whole
from rldyno.results.event_points import Curves, Point
from rldyno_rig import schema


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
    file, outcome = read_trial(home), read_outcome(home)
    if not (home / schema.PROGRESS_FILE).exists():
        return None
    path = event_path(folder, home.name, file, outcome.attempt)
    if is_whole(path, ended):
        return False
    write_whole(path, points(home), epoch_of(outcome.started_at))
    return True


def epoch_of(started_at: str | None) -> float:
    """Seconds since 1970; 0 where a record does not say when its trial began."""
    try:
        return datetime.fromisoformat(started_at or "").timestamp()
    except (ValueError, OverflowError):
        return 0.0


def points(home: Path) -> Iterator[Point]:
    """Of a trial that has ended."""
    episodes = read_csv(home / schema.EPISODES_FILE, schema.EPISODE_COLUMNS)
    progress = read_csv(home / schema.PROGRESS_FILE, schema.PROGRESS_COLUMNS)
    samples = read_csv(home / schema.SAMPLES_FILE, sample_columns())
    return Curves().more(episodes, progress, samples, ended=True)


class LiveTrial:
    """Adds to the event file of one attempt of a trial what its records have gained."""

    def __init__(self, home: Path, folder: Path, started_at: str) -> None:
        self.home = home
        self.attempt = next_attempt(home)
        self._episodes = GrowingCsv(home / schema.EPISODES_FILE, schema.EPISODE_COLUMNS)
        self._progress = GrowingCsv(home / schema.PROGRESS_FILE, schema.PROGRESS_COLUMNS)
        self._samples = GrowingCsv(home / schema.SAMPLES_FILE, sample_columns())
        self._curves = Curves()
        path = event_path(folder, home.name, read_trial(home), self.attempt)
        self._file = GrowingEventFile(path, epoch_of(started_at))

    def advance(self, *, ended: bool = False) -> None:
        episodes, progress, samples = (
            records.new_rows() for records in (self._episodes, self._progress, self._samples)
        )
        self._file.add(self._curves.more(episodes, progress, samples, ended=ended))
        if ended:
            self._file.finish()


class LiveEvents:
    """The event files of running trials. A trial with damaged records is reported once and left alone."""

    def __init__(self, folder: Path, print_line: Callable[[str], None]) -> None:
        """A Problem when another process adds to these files: two would write every point twice."""
        refuse_link(folder)
        folder.mkdir(parents=True, exist_ok=True)
        self._held = contextlib.ExitStack()
        try:
            self._held.enter_context(locked(folder / ".lock"))
        except LockedError as error:
            raise Problem(
                f"another process ({error}) writes event files here", fix="let it, or stop it", code=1
            ) from None
        self._folder = folder
        self._print_line = print_line
        self._trials: dict[Path, LiveTrial | None] = {}
        """Trial directory → its file; None where it cannot be written."""

    def advance(self, home: Path) -> None:
        """Of a running trial."""
        holder = lock_holder(home / TRIAL_LOCK)
        if holder is None or not (home / schema.PROGRESS_FILE).exists():
            return
        with self._reported(home):
            live = self._trials.get(home)
            if home not in self._trials or (live and live.attempt != next_attempt(home)):
                live = self._trials[home] = LiveTrial(home, self._folder, holder["since"])
            if live:
                live.advance()

    def finish(self, home: Path) -> None:
        """Of a trial that has ended."""
        live = self._trials.pop(home, None)
        with self._reported(home):
            ended = home / schema.OUTCOME_FILE
            if live and ended.exists() and live.attempt == read_outcome(home).attempt:
                live.advance(ended=True)
            else:
                write_trial(home, self._folder)

    def close(self) -> None:
        self._held.close()

    @contextlib.contextmanager
    def _reported(self, home: Path) -> Iterator[None]:
        try:
            yield
        except MissingLibrary:
            raise
        except (Problem, OSError) as error:
            self._trials[home] = None
            reason = error.message if isinstance(error, Problem) else error.strerror
            self._print_line(f"{home.name}: no event file: {reason}")
