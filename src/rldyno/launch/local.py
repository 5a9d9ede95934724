"""Trials on this machine: `rldyno trial DIR` for each, on CPUs that no other trial has."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Protocol

from rldyno.errors import Problem
from rldyno.processes.children import EndWatch, die_with_parent
from rldyno.processes.control import CANNOT_WRITE, StopFlag
from rldyno.records.files import Json

_TICK_S = 1.0


class Pool:
    """The CPUs for workers. Without affinity every trial may start and gets no CPU of its own."""

    def __init__(self, cpus: tuple[int, ...] | None) -> None:
        self._free = None if cpus is None else list(cpus)

    def take(self, cores: int) -> tuple[int, ...] | None:
        """`cores` CPUs, none without affinity (an empty tuple); None when too few are free."""
        if self._free is None:
            return ()
        if len(self._free) < cores:
            return None
        taken, self._free = self._free[:cores], self._free[cores:]
        return tuple(taken)

    def give_back(self, cpus: tuple[int, ...]) -> None:
        if self._free is not None:
            self._free = sorted([*self._free, *cpus])


@dataclass
class Runner:
    """A running `rldyno trial`."""

    trial: Json
    directory: Path
    cpus: tuple[int, ...]
    process: subprocess.Popen[bytes]
    errors: IO[bytes]
    started: float = field(default_factory=time.monotonic)

    def said(self) -> str:
        """What it wrote to stderr."""
        self.errors.seek(0)
        return self.errors.read().decode(errors="replace").strip()


class Watcher(Protocol):
    """Told what happens."""

    def tick(self, running: Iterable[Runner]) -> None: ...

    def ended(self, runner: Runner) -> None: ...


def run_trials(
    trials: Iterable[tuple[Json, Path]],
    jobs: int,
    pool: Pool,
    probe_cpu: int | None,
    watcher: Watcher,
    stop: StopFlag,
    start: Callable[[Json, Path, tuple[int, ...], int | None], Runner] | None = None,
) -> None:
    """Run them in this order, at most `jobs` at a time, one at a time on each accelerator.

    A trial that has to wait for CPUs holds up those behind it: the order is what makes the comparison fair.
    Raises KeyboardInterrupt once everything has stopped after a stop signal, Problem when the disk is full.
    """
    start = start or start_runner
    pending = deque(trials)
    running: dict[int, Runner] = {}
    watch = EndWatch()
    try:
        while pending or running:
            while pending and len(running) < jobs and not stop.set:
                runner = _start_next(pending[0], running, pool, probe_cpu, start)
                if runner is None:
                    break
                pending.popleft()
                running[runner.process.pid] = runner
                watch.add(runner.process.pid)
            watcher.tick(running.values())
            watch.wait(_TICK_S)
            for runner in [runner for runner in running.values() if runner.process.poll() is not None]:
                del running[runner.process.pid]
                watch.discard(runner.process.pid)
                pool.give_back(runner.cpus)
                _check_disk(runner)
                watcher.ended(runner)
                runner.errors.close()
            if stop.set:
                raise KeyboardInterrupt
    finally:
        _stop(running.values())
        watch.close()


def _start_next(
    following: tuple[Json, Path],
    running: dict[int, Runner],
    pool: Pool,
    probe_cpu: int | None,
    start: Callable[[Json, Path, tuple[int, ...], int | None], Runner],
) -> Runner | None:
    trial, directory = following
    device = trial["device"]
    if device != "cpu" and any(runner.trial["device"] == device for runner in running.values()):
        return None
    cpus = pool.take(trial["cores"])
    return None if cpus is None else start(trial, directory, cpus, probe_cpu)


def start_runner(trial: Json, directory: Path, cpus: tuple[int, ...], probe_cpu: int | None) -> Runner:
    command = [sys.executable, "-m", "rldyno.trial.entry", str(directory)]
    if cpus:
        command += ["--cpus", ",".join(map(str, cpus))]
    if probe_cpu is not None:
        command += ["--probe-cpu", str(probe_cpu)]
    errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the Runner)
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=errors,
        preexec_fn=die_with_parent(signal.SIGTERM),  # noqa: PLW1509 (one thread only)
    )
    return Runner(trial, directory, cpus, process, errors)


def _check_disk(runner: Runner) -> None:
    if runner.process.returncode == CANNOT_WRITE:
        message = runner.said().splitlines()[0].removeprefix("rldyno: ")
        raise Problem(
            message, fix="free some space and run the same command again: what is finished is kept", code=1
        )


def _stop(runners: Iterable[Runner]) -> None:
    """Each ends its worker first; one that does not answer is killed, and its worker with it."""
    runners = list(runners)
    for runner in runners:
        runner.process.terminate()
    for runner in runners:
        try:
            runner.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            runner.process.kill()
            runner.process.wait()
        runner.errors.close()
