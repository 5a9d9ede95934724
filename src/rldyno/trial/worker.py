"""A process of a trial that computes, and whether it shows life."""

from __future__ import annotations

import os
import resource
import subprocess
import time
from pathlib import Path


class StoppedError(Exception):
    """A signal stopped the trial, or its parent has ended. It leaves no outcome and will be run again."""


class AbsentError(Exception):
    """The interpreter could not be started."""


class Worker:
    """A process of a trial, leader of its own session and process group."""

    def __init__(self, process: subprocess.Popen[bytes], spawn_ns: int) -> None:
        self.spawn_ns = spawn_ns
        self.status: int | None = None
        self.usage: resource.struct_rusage | None = None
        self.end_ns = spawn_ns
        self._process = process
        self.pid = process.pid

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
