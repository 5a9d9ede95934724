"""Child processes that never outlive their parent, and waiting for them without polling."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Callable, Iterable

_PR_SET_PDEATHSIG = 1


def die_with_parent(signal_number: int, affinity: Iterable[int] | None = None) -> Callable[[], None]:
    """What a child does between fork and exec: have the kernel signal it when this process ends (Linux),
    take its CPUs, and leave no core dump. Everything it needs is looked up before the fork.
    """
    parent = os.getpid()
    prctl = ctypes.CDLL(None, use_errno=True).prctl if sys.platform == "linux" else None
    cpus = None if affinity is None else set(affinity)

    def prepare() -> None:
        if prctl is not None:
            prctl(_PR_SET_PDEATHSIG, signal_number, 0, 0, 0)
        if os.getppid() != parent:  # the parent died before prctl was called
            os._exit(1)
        if cpus:
            os.sched_setaffinity(0, cpus)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    return prepare


class EndWatch:
    """Waits until one of some children has ended: at once on Linux, elsewhere with a check every 50 ms."""

    def __init__(self) -> None:
        self._poll = select.poll()
        self._descriptors: dict[int, int] = {}
        self._immediate = hasattr(os, "pidfd_open")

    def add(self, pid: int) -> None:
        if self._immediate:
            try:
                self._descriptors[pid] = os.pidfd_open(pid)
            except OSError:
                self._immediate = False
            else:
                self._poll.register(self._descriptors[pid], select.POLLIN)

    def discard(self, pid: int) -> None:
        descriptor = self._descriptors.pop(pid, None)
        if descriptor is not None:
            self._poll.unregister(descriptor)
            os.close(descriptor)

    def wait(self, timeout_s: float) -> bool:
        """Return when one has ended or the time is up: False if none has, True if one may have."""
        if self._immediate and self._descriptors:
            return bool(self._poll.poll(max(0.0, timeout_s) * 1000))
        time.sleep(max(0.0, min(timeout_s, 0.05)))
        return True

    def close(self) -> None:
        for pid in list(self._descriptors):
            self.discard(pid)


def signal_group(group: int, signal_number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal_number)


def kill_all(group: int, pids: Iterable[int]) -> None:
    """Kill a process group and the processes that left it."""
    signal_group(group, signal.SIGKILL)
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
