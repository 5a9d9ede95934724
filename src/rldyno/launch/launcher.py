"""What a launcher is, and how the trials of a plan run with one.

A launcher knows where trials run, and nothing else. It starts one command for one directory,
`rldyno trial DIR`. The directory holds everything the trial needs (trial.json), and the trial writes
everything it finds there, so a launcher reads no results. Where outcome.json exists, the trial has ended.
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
    attached: bool = False
    """Whether a job of an earlier session has it: its files are not touched."""

    @property
    def id(self) -> str:
        return self.file.trial


@dataclass(frozen=True)
class RunningTrial:
    trial: PreparedTrial
    started: float = field(default_factory=time.monotonic)
    queued: bool = False
    """Whether it still waits for its turn, somewhere else."""


@dataclass(frozen=True)
class EndedTrial:
    trial: PreparedTrial
    seconds: float
    """From its start to its end, as the launcher saw it."""
    exit_code: int | None
    """Of `rldyno trial`: 0 done, 1 failed, 3 records cannot be written, 130 interrupted; None if unknown."""
    error_text: str
    """What the command wrote to stderr."""


class DetachedError(Exception):
    """The trials go on, or wait, as jobs of a cluster without this process."""

    def __init__(self, words: str, code: int = 0) -> None:
        super().__init__(words)
        self.code = code
        """For the command line to exit with."""


class Launcher(Protocol):
    """Where trials run: `local` starts processes, `slurm` submits jobs."""

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
        """Called once at the end in any case. Processes of this machine must have ended when it returns; jobs
        of a cluster go on.
        """
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
