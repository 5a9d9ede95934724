"""The process of a trial that computes: started, awaited, stopped."""

from __future__ import annotations

import os
import resource
import signal
import time
from pathlib import Path

from rldyno.errors import UNWRITABLE
from rldyno.processes.children import EndWatch, signal_group
from rldyno.processes.rig import FAULT_HANDLER, Runtime, start_rig

_GRACE_S = 2.0


class StoppedError(Exception):
    """A signal stopped the trial, or its parent has ended. It leaves no outcome and will be run again."""


class AbsentError(Exception):
    """The interpreter could not be started."""


class Worker:
    """A rig process, leader of its own session and process group."""

    def __init__(
        self,
        job: str,
        directory: Path,
        runtime: Runtime,
        log: Path,
        cpus: tuple[int, ...] | None,
        spawn_ns: int,
    ) -> None:
        self.spawn_ns = spawn_ns
        self.status: int | None = None
        self.usage: resource.struct_rusage | None = None
        self.end_ns = spawn_ns
        try:
            with log.open("wb") as output:
                self._process = start_rig(
                    job,
                    directory,
                    runtime,
                    cpus=cpus,
                    stdout=output,
                    spawn_ns=spawn_ns,
                    options=FAULT_HANDLER,
                )
        except OSError as error:
            if error.errno in UNWRITABLE:
                raise
            raise AbsentError(f"cannot start {runtime.python}: {error.strerror or error}") from error
        self.pid = self._process.pid

    def ended(self) -> bool:
        if self.status is None:
            pid, status, usage = os.wait4(self.pid, os.WNOHANG)
            if pid:
                self._reaped(status, usage)
        return self.status is not None

    def _reaped(self, status: int, usage: resource.struct_rusage) -> None:
        self.end_ns = time.monotonic_ns()
        self.status, self.usage = status, usage
        self._process.returncode = os.waitstatus_to_exitcode(status)

    @property
    def exit_code(self) -> int:
        """As the subprocess module has it: negative is the signal that ended it."""
        return int(self._process.returncode or 0)

    @property
    def seconds(self) -> float:
        """From its start to its end."""
        return (self.end_ns - self.spawn_ns) / 1e9

    def stop(self, first_signal: int, watch: EndWatch, grace_s: float = _GRACE_S) -> None:
        """Send the signal, wait for a short time, then kill the whole group."""
        signal_group(self.pid, first_signal)
        deadline = time.monotonic() + grace_s
        while not self.ended() and time.monotonic() < deadline:
            watch.wait(deadline - time.monotonic())
        signal_group(self.pid, signal.SIGKILL)
        while not self.ended():
            watch.wait(1.0)


class Silence:
    """Notices that a file has not been touched for too long."""

    def __init__(self, path: Path, limit_s: float) -> None:
        self._path = path
        self._limit_ns = limit_s * 1e9
        self._seen: tuple[int, int] | None = None
        self._changed_ns = time.monotonic_ns()

    def too_long(self, now_ns: int) -> bool:
        try:
            status = self._path.stat()
        except FileNotFoundError:
            seen = None
        else:
            seen = status.st_size, status.st_mtime_ns
        if seen != self._seen:
            self._seen, self._changed_ns = seen, now_ns
        return now_ns - self._changed_ns > self._limit_ns
