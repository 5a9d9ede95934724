"""The caches of one trial: cold ones are new and end with it, warm ones are filled before it."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rldyno.processes import caches
from rldyno.processes.children import EndWatch, kill_all
from rldyno.processes.control import StopFlag
from rldyno.processes.orphans import end_orphans
from rldyno.processes.rig import Runtime
from rldyno.records.files import Json, read_bytes
from rldyno.records.locks import LockedError, locked
from rldyno.trial.outcome import Ending
from rldyno.trial.worker import Silence, StoppedError, Worker
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
    cpus: tuple[int, ...] | None,
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
                seconds = _start_once(place, trial_dir, trial, runtime, cpus, stop)
                caches.remove([place / "start"])
                mark.touch()
                return seconds
        except LockedError:  # another trial of this contestant is filling them
            if stop.set:
                raise StoppedError from None


def section(trial: TrialFile, place: Path, filled_s: float | None) -> Json:
    """`caches` of outcome.json."""
    why = "only warm caches are filled before a trial" if trial.caches == caches.COLD else None
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
    cpus: tuple[int, ...] | None,
    stop: StopFlag,
) -> float:
    directory = place / "start"
    directory.mkdir(exist_ok=True)
    (directory / schema.TRIAL_FILE).write_bytes(read_bytes(trial_dir / schema.TRIAL_FILE))
    worker = Worker("fill", directory, runtime, trial_dir / schema.LOG_FILE, cpus, time.monotonic_ns())
    silence = Silence(directory / schema.PROGRESS_FILE, trial.hang_timeout_s)
    watch, parent = EndWatch(), os.getppid()
    watch.add(worker.pid)
    try:
        while not worker.ended():
            if stop.set or os.getppid() != parent:
                raise StoppedError
            if silence.too_long(time.monotonic_ns()):
                worker.stop(signal.SIGABRT, watch)
                raise UnfilledError(
                    Ending("hung", f"filling its caches: no progress for {trial.hang_timeout_s:g} s")
                )
            watch.wait(_LONGEST_WAIT_S)
    finally:
        if not worker.ended():
            worker.stop(signal.SIGTERM, watch)
        kill_all(worker.pid, [])
        end_orphans((), of_workers_only=True)
        watch.close()
    ending = Ending.from_exit(worker.exit_code)
    if ending.reason:
        message = f"the start that fills its caches failed: {ending.message}"
        raise UnfilledError(Ending(ending.reason, message, ending.exit_code))
    return worker.seconds
