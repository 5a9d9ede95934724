"""Linux: what single threads did, from /proc/PID/task/TID."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rldyno.probe.tree import BUSY_SHARE, TaskUsage

_NO_TASKS = "this kernel shows no /proc/PID/task/TID/schedstat (built without CONFIG_SCHED_INFO)"
_NO_TIMES = "this kernel does not count the times of threads: /proc/PID/task/TID/schedstat is all zeros"
_NOTHING = b"0 0 0"
_TIMED = ("wait_ns", "threads_busy", "threads_runnable", "threads_competing")


class _Task(NamedTuple):
    schedstat: bytes
    """Time on a CPU, time waiting for one, number of times it got a CPU."""
    run_ns: int
    wait_ns: int
    voluntary: int
    involuntary: int


class LinuxTasks:
    """Threads of some processes. The kernel's files of a process describe its first thread only.

    A thread that lives and dies between two readings is missing; what ended threads had used stays counted.
    """

    def __init__(self, proc: str) -> None:
        self._proc = proc
        self._tasks: dict[int, _Task] = {}
        self._ended = (0, 0, 0)
        """Wait time, voluntary and involuntary switches of threads that are no more."""
        self._read_ns: int | None = None
        self.reasons: dict[str, str] = dict.fromkeys(TaskUsage._fields, _NO_TASKS)
        """Field → why it cannot be read here."""

    def read(self, pids: Iterable[int], now_ns: int) -> TaskUsage:
        now: dict[int, _Task] = {}
        for pid in pids:
            with contextlib.suppress(OSError):
                for name in os.listdir(f"{self._proc}/{pid}/task"):  # noqa: PTH208 (twice as fast)
                    with contextlib.suppress(OSError):
                        now[int(name)] = self._task(f"{self._proc}/{pid}/task/{name}", int(name))
        before, elapsed_ns = self._tasks, None if self._read_ns is None else now_ns - self._read_ns
        gone = [task for number, task in before.items() if number not in now]
        self._ended = _totals(gone, self._ended)
        self._tasks, self._read_ns = now, now_ns
        if not now:
            return TaskUsage()
        wait_ns, voluntary, involuntary = _totals(now.values(), self._ended)
        usage = TaskUsage(wait_ns, voluntary + involuntary, involuntary)
        # Every thread that exists has run.
        if all(task.schedstat.strip() == _NOTHING for task in now.values()):
            self.reasons = dict.fromkeys(_TIMED, _NO_TIMES)
            return usage._replace(wait_ns=None)
        self.reasons = {}
        if not elapsed_ns:
            return usage
        ran = [task.run_ns - before[n].run_ns if n in before else task.run_ns for n, task in now.items()]
        waited = [
            task.wait_ns - before[n].wait_ns if n in before else task.wait_ns for n, task in now.items()
        ]
        return usage._replace(
            threads_busy=sum(run_ns >= BUSY_SHARE * elapsed_ns for run_ns in ran),
            threads_runnable=(sum(ran) + sum(waited)) / elapsed_ns,
            threads_competing=competing_ns(ran, waited) / elapsed_ns,
        )

    def _task(self, folder: str, number: int) -> _Task:
        schedstat = read_small(f"{folder}/schedstat")
        known = self._tasks.get(number)
        if known is not None and known.schedstat == schedstat and schedstat.strip() != _NOTHING:
            return known  # it has not run since, so its counts are the same
        run_ns, wait_ns, _ = schedstat.split()
        status = read_small(f"{folder}/status")
        return _Task(
            schedstat,
            int(run_ns),
            int(wait_ns),
            _count(status, b"\nvoluntary_ctxt_switches:"),
            _count(status, b"\nnonvoluntary_ctxt_switches:"),
        )


def competing_ns(ran: Sequence[int], waited: Sequence[int]) -> int:
    """Time that threads ran or waited for one another, Σ rᵢ + min(wᵢ, Σ r − rᵢ), at most.

    A thread waits for its siblings no longer than they run; what it waited longer, it waited for other
    processes. Two threads that only take turns both seem to want a CPU all the time while others hold it.
    """
    total = sum(ran)
    return total + sum(min(wait, total - run) for run, wait in zip(ran, waited, strict=True))


def _totals(tasks: Iterable[_Task], start: tuple[int, int, int]) -> tuple[int, int, int]:
    wait_ns, voluntary, involuntary = start
    for task in tasks:
        wait_ns += task.wait_ns
        voluntary += task.voluntary
        involuntary += task.involuntary
    return wait_ns, voluntary, involuntary


def _count(status: bytes, name: bytes) -> int:
    _, found, rest = status.partition(name)
    if not found:
        raise OSError(f"/proc has no {name.decode().strip()}")
    return int(rest.split(None, 1)[0])


def read_small(path: str) -> bytes:
    """A file of /proc that fits into a page: one read has all of it."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return os.read(descriptor, 4096)
    finally:
        os.close(descriptor)
