"""The caches of one trial: cold ones are new and end with it, warm ones are filled before it."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from rldyno.processes import caches
from rldyno.processes.children import kill_all
from rldyno.processes.control import StopFlag
from rldyno.processes.orphans import end_orphans
from rldyno.processes.rig import Runtime
from rldyno.records.files import Json, read_bytes
from rldyno.records.locks import LockedError, locked
from rldyno.trial.crew import Crew
from rldyno.trial.outcome import Ending
from rldyno.trial.places import Places
from rldyno.trial.worker import StoppedError
from rldyno_rig import schema
from rldyno_rig.trial_file import TrialFile

_LONGEST_WAIT_S = 0.25
# What compiled code depends on; a seed, a budget or another block changes none of it.
_COMPILED_FOR = (
    "algorithm",
    "environment",
    "max_episode_steps",
    "device",
    "cores",
    "workers",
    "collective",
    "scaling",
    "dtype",
    "hyper",
)


class UnfilledError(Exception):
    """The unmeasured start that fills warm caches failed."""

    def __init__(self, ending: Ending) -> None:
        super().__init__(ending.message)
        self.ending = ending


@contextmanager
def opened(trial_dir: Path, trial: TrialFile) -> Iterator[Path | None]:
    """The place of the trial's caches; None for one of an older version, which uses those of the user."""
    if trial.caches is None:
        yield None
        return
    cold = trial.caches == caches.COLD
    results, contestant = trial_dir.parent.parent, str(trial.contestant)
    place = caches.cold_place(trial_dir) if cold else caches.warm_place(results, contestant)
    if cold:
        caches.remove([place])
    caches.make(place, trial.variables)
    try:
        yield place
    finally:
        if cold:
            caches.remove([place])


def fill(
    place: Path,
    trial_dir: Path,
    trial: TrialFile,
    runtime: Runtime,
    places: Places,
    stop: StopFlag,
) -> float | None:
    """Start the contestant once without measuring it: build and warm-up, no training. Seconds that took.

    None where a trial of the same computation has done it. Raises UnfilledError, or StoppedError.
    """
    marks = place / "filled"
    marks.mkdir(exist_ok=True)
    mark = marks / _compiled_for(trial)
    while True:
        try:
            with locked(place / "lock", _LONGEST_WAIT_S):
                if mark.exists():
                    return None
                seconds = _start_once(place, trial_dir, trial, runtime, places, stop)
                caches.remove([place / "start"])
                mark.touch()
                return seconds
        except LockedError:  # another trial of this contestant is filling them
            if stop.set:
                raise StoppedError from None


def section(trial: TrialFile, place: Path, filled_s: float | None) -> Json:
    """`caches` of outcome.json."""
    why = "only warm caches are filled before a trial" if trial.caches == caches.COLD else None
    if trial.guest is not None and why is None:
        why = "a script is not started before its first trial: that one fills them"
    why = why or "an earlier trial of the same computation filled them"
    return {
        "kind": trial.caches,
        "bytes": caches.size_bytes(place),
        "filled_s": filled_s,
        "reasons": {} if filled_s is not None else {"filled_s": why},
    }


def _compiled_for(trial: TrialFile) -> str:
    values = trial.to_json()
    content = json.dumps({name: values[name] for name in _COMPILED_FOR}, sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def _start_once(
    place: Path,
    trial_dir: Path,
    trial: TrialFile,
    runtime: Runtime,
    places: Places,
    stop: StopFlag,
) -> float:
    directory = place / "start"
    directory.mkdir(exist_ok=True)
    (directory / schema.TRIAL_FILE).write_bytes(read_bytes(trial_dir / schema.TRIAL_FILE))
    crew = Crew("fill", directory, trial, runtime, places, trial_dir)
    try:
        ending = _until_end(crew, stop)
    finally:
        crew.stop(signal.SIGTERM)
        for pid in crew.pids:
            kill_all(pid, [])
        end_orphans((), of_workers_only=True)
        crew.close()
    if ending.reason:
        raise UnfilledError(
            replace(ending, message=f"the start that fills its caches failed: {ending.message}")
        )
    return crew.seconds


def _until_end(crew: Crew, stop: StopFlag) -> Ending:
    parent = os.getppid()
    while not crew.over():
        if stop.set or os.getppid() != parent:
            raise StoppedError
        if (ending := crew.misbehaves(time.monotonic_ns())) is not None:
            return ending
        crew.wait(_LONGEST_WAIT_S)
    return crew.finish()
