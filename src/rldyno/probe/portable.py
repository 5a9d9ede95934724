"""Systems other than Linux, through psutil: coarser and dearer, the same figures."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

import psutil

from rldyno.probe.tree import BUSY_SHARE, Carry, CpuTimes, TaskUsage, TreeUsage

_NS = 1_000_000_000
_GONE = (psutil.NoSuchProcess, psutil.AccessDenied)
_REASONS = {
    "wait_ns": "this system does not count how long threads wait for a CPU",
    "context_switches": "this system denied it",
    "involuntary_switches": "this system does not tell voluntary switches from involuntary ones",
    "threads_busy": "this system denied the times of single threads",
    "threads_runnable": "this system does not count how long threads wait for a CPU",
}


class PortableTree:
    def __init__(self, root: int, process: Any = psutil.Process) -> None:
        self._root: Any = process(root)
        self._members: dict[int, Any] = {root: self._root}
        self._user, self._system, self._switches = Carry(), Carry(), Carry()
        self._ran: dict[int, float] = {}
        """CPU seconds of each thread at the previous reading."""
        self._read_ns: int | None = None

    def discover(self) -> None:
        try:
            children = self._root.children(recursive=True)
        except _GONE:
            return
        for child in children:
            self._members.setdefault(child.pid, child)

    def take(self) -> TreeUsage:
        user = system = 0.0
        rss = threads = processes = 0
        for pid, member in list(self._members.items()):
            try:
                with member.oneshot():
                    times = member.cpu_times()
                    rss += member.memory_info().rss
                    threads += member.num_threads()
            except _GONE:
                del self._members[pid]
                continue
            user += times.user + getattr(times, "children_user", 0.0)
            system += times.system + getattr(times, "children_system", 0.0)
            processes += 1
        if not processes:
            raise ProcessLookupError(self._root.pid)
        return TreeUsage(
            cpu_user_ns=self._user(round(user * _NS)),
            cpu_system_ns=self._system(round(system * _NS)),
            rss_bytes=rss,
            processes=processes,
            threads=threads,
        )

    def usage(self, taken: TreeUsage) -> TreeUsage | None:
        return taken

    def tasks(self, now_ns: int) -> TaskUsage:
        """Wait time and the kind of a switch are not to be had; what is denied stays unknown."""
        switches: dict[int, int] = {}
        ran: dict[int, float] = {}
        for pid, member in self._members.items():
            with contextlib.suppress(*_GONE):
                switches[pid] = sum(member.num_ctx_switches())
            with contextlib.suppress(*_GONE):
                for thread in member.threads():
                    ran[thread.id] = thread.user_time + thread.system_time
        before, self._ran = self._ran, ran
        elapsed_s = None if self._read_ns is None else (now_ns - self._read_ns) / _NS
        self._read_ns = now_ns
        busy = None
        if elapsed_s and ran:
            used = (seconds - before.get(thread, 0.0) for thread, seconds in ran.items())
            busy = sum(seconds >= BUSY_SHARE * elapsed_s for seconds in used)
        return TaskUsage(
            context_switches=self._switches(sum(switches.values())) if switches else None, threads_busy=busy
        )

    @property
    def reasons(self) -> Mapping[str, str]:
        return _REASONS

    def uss_bytes(self) -> int | None:
        total, seen = 0, False
        for member in self._members.values():
            try:
                total += member.memory_full_info().uss
                seen = True
            except _GONE:
                continue
        return total if seen else None

    def peak_rss_bytes(self) -> int | None:
        return None

    def pids(self) -> list[int]:
        return list(self._members)

    def close(self) -> None:
        self._members.clear()


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
