"""Watching a run from another process: what it does, until it ends, without disturbing it."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass

from rldyno.records.directory import ResultsDirectory
from rldyno.records.files import Json
from rldyno.records.locks import lock_holder
from rldyno.records.manifest import Manifest
from rldyno.records.trial_state import TrialState, trial_state

_NICE = 10


@dataclass(frozen=True)
class Look:
    """A results directory at one moment."""

    manifest: Manifest
    states: dict[str, TrialState]
    """Trial → its state."""
    runner: Json | None
    """What the `rldyno run` that works here wrote about itself; None when none does."""

    @property
    def running(self) -> list[str]:
        return [trial for trial, state in self.states.items() if state.running]

    def count(self, name: str) -> int:
        return sum(state.name == name for state in self.states.values())


def look_at(results: ResultsDirectory) -> Look:
    runner = lock_holder(results.lock)
    manifest = results.read_manifest()
    return Look(manifest, {trial: trial_state(results.trial(trial)) for trial in manifest.trials}, runner)


def looks(results: ResultsDirectory, every_s: float = 1.0) -> Iterator[Look]:
    """One look now and one every so often until the run ends; the last one sees no runner."""
    _be_nice()
    while True:
        look = look_at(results)
        yield look
        if look.runner is None:
            return
        _stay_beside(look.runner)
        time.sleep(every_s)


def _be_nice() -> None:
    with contextlib.suppress(OSError):
        os.nice(_NICE)


def _stay_beside(runner: Json) -> None:
    """Use the CPUs of the lab: while trials run, it keeps off those of the workers."""
    with contextlib.suppress(OSError, AttributeError, TypeError):
        os.sched_setaffinity(0, os.sched_getaffinity(int(runner["pid"])))
