"""Systems other than Linux, through psutil: the same values, less exact and slower to read."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import psutil

from rldyno.probe.tree import BUSY_SHARE, Carry, CpuTimes, TaskUsage, TreeUsage

_NS = 1_000_000_000
# Raised by psutil on systems that have no such value.
_UNREADABLE = (psutil.Error, AttributeError, NotImplementedError)
_NEVER = {
    "wait_ns": "this system does not count how long threads wait for a CPU",
    "involuntary_switches": "this system does not count voluntary and involuntary switches apart",
    "threads_runnable": "this system does not count how long threads wait for a CPU",
    "threads_competing": "this system does not count how long threads wait for a CPU",
}
_UNSEEN = {
    "context_switches": "this system denied it, or does not count them",
    "threads_busy": "this system denied the times of single threads",
    "uss_bytes": "this system denied it, or does not show the memory that a process has for itself",
}


class _Reading(NamedTuple):
    user_s: float
    system_s: float
    rss_bytes: int
    threads: int


class PortableTree:
    def __init__(self, roots: Sequence[int], process: Any = psutil.Process) -> None:
        self._roots: list[Any] = [process(root) for root in roots]
        self._members: dict[int, Any] = dict(zip(roots, self._roots, strict=True))
        self._readings: dict[int, _Reading] = {}
        self._user, self._system = Carry(), Carry()
        self._switches: dict[int, int] = {}
        """Of every process, also of ended ones."""
        self._ran: dict[int, float] = {}
        """CPU seconds of each thread at the previous reading."""
        self._read_ns: int | None = None
        self._unseen = dict(_UNSEEN)

    def discover(self) -> None:
        for root in self._roots:
            with contextlib.suppress(psutil.Error):
                for child in root.children(recursive=True):
                    self._members.setdefault(child.pid, child)

    def take(self) -> TreeUsage:
        for pid, member in list(self._members.items()):
            try:
                self._readings[pid] = _read(member)
            except psutil.AccessDenied:
                continue  # what it had stays counted: dropped and found again, its time would count twice
            except psutil.NoSuchProcess:
                del self._members[pid]
                self._readings.pop(pid, None)
        readings = self._readings.values()
        if not readings:
            raise ProcessLookupError(self._roots[0].pid)
        return TreeUsage(
            cpu_user_ns=self._user(round(sum(reading.user_s for reading in readings) * _NS)),
            cpu_system_ns=self._system(round(sum(reading.system_s for reading in readings) * _NS)),
            rss_bytes=sum(reading.rss_bytes for reading in readings),
            processes=len(readings),
            threads=sum(reading.threads for reading in readings),
        )

    def usage(self, taken: TreeUsage) -> TreeUsage | None:
        return taken

    def tasks(self, now_ns: int) -> TaskUsage:
        """Wait time and the kind of a switch cannot be read; what is denied stays unknown."""
        ran: dict[int, float] = {}
        for pid, member in self._members.items():
            with contextlib.suppress(*_UNREADABLE):
                self._switches[pid] = sum(member.num_ctx_switches())
                self._unseen.pop("context_switches", None)
            with contextlib.suppress(*_UNREADABLE):
                for thread in member.threads():
                    ran[thread.id] = thread.user_time + thread.system_time
                    self._unseen.pop("threads_busy", None)
        before, self._ran = self._ran, ran
        elapsed_s = None if self._read_ns is None else (now_ns - self._read_ns) / _NS
        self._read_ns = now_ns
        busy = None
        if elapsed_s and ran:
            used = (seconds - before.get(thread, 0.0) for thread, seconds in ran.items())
            busy = sum(seconds >= BUSY_SHARE * elapsed_s for seconds in used)
        switches = sum(self._switches.values()) if self._switches else None
        return TaskUsage(context_switches=switches, threads_busy=busy)

    @property
    def reasons(self) -> Mapping[str, str]:
        return {**_NEVER, **self._unseen}

    def uss_bytes(self) -> int | None:
        total, seen = 0, False
        for member in self._members.values():
            try:
                total += member.memory_full_info().uss
                seen = True
                self._unseen.pop("uss_bytes", None)
            except _UNREADABLE:
                continue
        return total if seen else None

    def peak_rss_bytes(self) -> int | None:
        return None

    def pids(self) -> list[int]:
        return list(self._members)

    def close(self) -> None:
        self._members.clear()


def _read(member: Any) -> _Reading:
    with member.oneshot():
        times = member.cpu_times()
        return _Reading(
            times.user + getattr(times, "children_user", 0.0),
            times.system + getattr(times, "children_system", 0.0),
            member.memory_info().rss,
            member.num_threads(),
        )


class PortableMachine:
    def __init__(self, api: Any = psutil) -> None:
        self._api = api

    def cpu_times(self, cpus: tuple[int, ...] | None = None) -> CpuTimes:
        every = self._api.cpu_times(percpu=True)
        chosen = every if cpus is None else [every[cpu] for cpu in cpus]
        total = sum(sum(times) for times in chosen)
        idle = sum(times.idle for times in chosen)
        return CpuTimes(busy_s=total - idle, total_s=total, steal_s=None)

    def memory_percent(self) -> float:
        return float(self._api.virtual_memory().percent)

    def oom_kills(self) -> int | None:
        return None
