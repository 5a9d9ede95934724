"""What a launcher is, and how the trials of a plan run with one.

A launcher knows where trials run, and nothing else. It starts one command for one directory,
`rldyno trial DIR`. The directory holds everything the trial needs (trial.json), and the trial writes
everything it finds there, so a launcher never reads records.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from rldyno.errors import Problem
from rldyno.processes.control import CANNOT_WRITE, StopFlag
from rldyno_rig.trial_file import TrialFile

_TICK_S = 1.0


@dataclass(frozen=True)
class PreparedTrial:
    """A trial whose directory and trial.json exist."""

    file: TrialFile
    directory: Path

    @property
    def id(self) -> str:
        return self.file.trial


@dataclass(frozen=True)
class RunningTrial:
    trial: PreparedTrial
    started: float = field(default_factory=time.monotonic)


@dataclass(frozen=True)
class EndedTrial:
    trial: PreparedTrial
    seconds: float
    """From its start to its end, as the launcher saw it."""
    exit_code: int | None
    """Of `rldyno trial`: 0 done, 1 failed, 3 records cannot be written, 130 interrupted; None if unknown."""
    error_text: str
    """What the command wrote to stderr."""


class Launcher(Protocol):
    """Where trials run. `local` starts processes; a batch system would submit jobs.

    For Slurm, for example: `has_room` compares the queued jobs with a limit, `start` calls sbatch with
    `rldyno trial DIR`, `wait` reads squeue and sacct, `stop` calls scancel.
    """

    def has_room(self, trial: PreparedTrial) -> bool:
        """Whether this trial can start now. The trials behind it wait until it can."""
        ...

    def start(self, trial: PreparedTrial) -> None:
        """Start it and return at once. Only called after `has_room`."""
        ...

    def running(self) -> Sequence[RunningTrial]:
        """The trials that were started and have not been returned by `wait`."""
        ...

    def wait(self, timeout_s: float) -> list[EndedTrial]:
        """The trials that have ended; blocks until one ends, at most `timeout_s`."""
        ...

    def stop(self) -> None:
        """End every running trial and wait until all have ended. Called once at the end in any case."""
        ...


class Watcher(Protocol):
    """Follows the trials while they run."""

    def starting(self, trial: PreparedTrial) -> PreparedTrial:
        """Right before the start: the last chance to complete trial.json."""
        ...

    def tick(self, running: Sequence[RunningTrial]) -> None:
        """About once per second."""
        ...

    def ended(self, trial: EndedTrial) -> None: ...


def run_trials(trials: Iterable[PreparedTrial], launcher: Launcher, watcher: Watcher, stop: StopFlag) -> None:
    """Run the trials in this order, as many at a time as the launcher has room for.

    A trial that waits for room holds back those behind it: the order makes the comparison fair.
    Raises KeyboardInterrupt once everything has stopped after a stop signal, Problem when the disk is full.
    """
    pending = deque(trials)
    try:
        while pending or launcher.running():
            while pending and not stop.set and launcher.has_room(pending[0]):
                launcher.start(watcher.starting(pending.popleft()))
            watcher.tick(launcher.running())
            for ended in launcher.wait(_TICK_S):
                _check_disk(ended)
                watcher.ended(ended)
            if stop.set:
                raise KeyboardInterrupt
    finally:
        launcher.stop()


def _check_disk(ended: EndedTrial) -> None:
    if ended.exit_code == CANNOT_WRITE:
        message = (ended.error_text.splitlines() or ["the records cannot be written"])[0]
        raise Problem(
            message.removeprefix("rldyno: "),
            fix="free some space and run the same command again: finished trials are kept",
            code=1,
        )
