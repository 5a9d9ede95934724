"""Trials on this machine, each on CPUs that no other trial has."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import IO

from rldyno.launch.launcher import EndedTrial, PreparedTrial, RunningTrial
from rldyno.processes import caches
from rldyno.processes.children import EndWatch, die_with_parent
from rldyno.processes.lab import OWN_MODULE
from rldyno.processes.orphans import adopt_orphans, end_orphans

_STOP_PATIENCE_S = 10.0

Command = Callable[[PreparedTrial, tuple[int, ...], int | None], list[str]]
"""From a trial, the CPUs of its workers and the CPU of the probe to the command that runs it."""


def trial_command(trial: PreparedTrial, cpus: tuple[int, ...], probe_cpu: int | None) -> list[str]:
    """`rldyno trial DIR` without the start-up time of the command-line libraries."""
    command = [sys.executable, *OWN_MODULE, "rldyno.trial.entry", str(trial.directory)]
    if cpus:
        command += ["--cpus", ",".join(map(str, cpus))]
    if probe_cpu is not None:
        command += ["--probe-cpu", str(probe_cpu)]
    return command


class CpuPool:
    """The CPUs for workers. On a system without affinity (None) every trial may start, on any CPU."""

    def __init__(self, cpus: tuple[int, ...] | None) -> None:
        self._free = None if cpus is None else list(cpus)

    def has(self, cores: int) -> bool:
        return self._free is None or len(self._free) >= cores

    def take(self, cores: int) -> tuple[int, ...]:
        """`cores` CPUs; an empty tuple without affinity."""
        if self._free is None:
            return ()
        taken, self._free = self._free[:cores], self._free[cores:]
        return tuple(taken)

    def give_back(self, cpus: tuple[int, ...]) -> None:
        if self._free is not None:
            self._free = sorted([*self._free, *cpus])


@dataclass(frozen=True)
class _TrialProcess:
    running: RunningTrial
    cpus: tuple[int, ...]
    process: subprocess.Popen[bytes]
    errors: IO[bytes]

    def ended(self) -> EndedTrial:
        """Closes its files."""
        self.errors.seek(0)
        text = self.errors.read().decode(errors="replace").strip()
        self.errors.close()
        seconds = time.monotonic() - self.running.started
        return EndedTrial(self.running.trial, seconds, self.process.returncode, text)


class LocalLauncher:
    """At most `jobs` trials at a time, one at a time on each kind of accelerator."""

    def __init__(
        self,
        jobs: int,
        cpus: tuple[int, ...] | None,
        probe_cpu: int | None,
        command: Command = trial_command,
    ) -> None:
        self._jobs = jobs
        self._pool = CpuPool(cpus)
        self._probe_cpu = probe_cpu
        self._command = command
        self._processes: dict[int, _TrialProcess] = {}
        self._watch = EndWatch()

    def has_room(self, trial: PreparedTrial) -> bool:
        device = trial.file.device
        busy = {running.trial.file.device for running in self.running()} - {"cpu"}
        return len(self._processes) < self._jobs and device not in busy and self._pool.has(trial.file.cpus)

    def start(self, trial: PreparedTrial) -> None:
        adopt_orphans()
        cpus = self._pool.take(trial.file.cpus)
        errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed when the process has ended)
        process = subprocess.Popen(
            self._command(trial, cpus, self._probe_cpu),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            preexec_fn=die_with_parent(signal.SIGTERM),  # noqa: PLW1509 (one thread only)
        )
        self._processes[process.pid] = _TrialProcess(RunningTrial(trial), cpus, process, errors)
        self._watch.add(process.pid)

    def running(self) -> Sequence[RunningTrial]:
        return [started.running for started in self._processes.values()]

    def wait(self, timeout_s: float) -> list[EndedTrial]:
        self._watch.wait(timeout_s)
        ended = [entry for entry in self._processes.values() if entry.process.poll() is not None]
        return [self._remove(entry) for entry in ended]

    def stop(self) -> None:
        """Each trial stops its worker first; one that does not react is killed, and its worker with it."""
        left = list(self._processes.values())
        for entry in left:
            entry.process.terminate()
        for entry in left:
            try:
                entry.process.wait(timeout=_STOP_PATIENCE_S)
            except subprocess.TimeoutExpired:
                entry.process.kill()
                entry.process.wait()
            self._remove(entry)
        self._watch.close()

    def _remove(self, entry: _TrialProcess) -> EndedTrial:
        del self._processes[entry.process.pid]
        self._watch.discard(entry.process.pid)
        self._pool.give_back(entry.cpus)
        # The trial does both itself, unless it was killed.
        end_orphans(self._processes, of_workers_only=True)
        caches.remove([caches.cold_place(entry.running.trial.directory)])
        return entry.ended()
