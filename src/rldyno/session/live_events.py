"""TensorBoard event files while trials run: written by the lab, on its own CPU, from what trials recorded."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence

from rldyno.errors import Problem
from rldyno.launch.launcher import EndedTrial, PreparedTrial, RunningTrial, Watcher
from rldyno.records.directory import ResultsDirectory
from rldyno.results.event_file import FOLDER
from rldyno.results.tensorboard import LiveEvents

EVERY_S = 2.0


@contextlib.contextmanager
def with_events(
    watcher: Watcher, directory: ResultsDirectory, print_line: Callable[[str], None]
) -> Iterator[Watcher]:
    """The watcher, which also adds to event files, unless `rldyno tensorboard --follow` does already."""
    try:
        events = LiveEvents(directory.root / FOLDER, print_line)
    except Problem as problem:
        print_line(problem.message)
        yield watcher
        return
    with contextlib.closing(events):
        yield WithEvents(watcher, events)


class WithEvents:
    """A `Watcher` that also adds to event files; `watcher` sees everything first."""

    def __init__(self, watcher: Watcher, events: LiveEvents) -> None:
        self._watcher = watcher
        self._events = events
        self._next_s = 0.0

    def starting(self, trial: PreparedTrial) -> PreparedTrial:
        return self._watcher.starting(trial)

    def tick(self, running: Sequence[RunningTrial]) -> None:
        self._watcher.tick(running)
        if time.monotonic() >= self._next_s:
            self._next_s = time.monotonic() + EVERY_S
            for entry in running:
                self._events.advance(entry.trial.directory)

    def ended(self, trial: EndedTrial) -> None:
        self._watcher.ended(trial)
        self._events.finish(trial.trial.directory)
