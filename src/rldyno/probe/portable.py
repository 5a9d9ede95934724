"""Systems other than Linux, through psutil: coarser and dearer, the same figures."""

from __future__ import annotations

from typing import Any

import psutil

from rldyno.probe.tree import Carry, CpuTimes, TreeUsage

_NS = 1_000_000_000
_GONE = (psutil.NoSuchProcess, psutil.AccessDenied)


class PortableTree:
    def __init__(self, root: int, process: Any = psutil.Process) -> None:
        self._root: Any = process(root)
        self._members: dict[int, Any] = {root: self._root}
        self._user, self._system = Carry(), Carry()

    def discover(self) -> None:
        try:
            children = self._root.children(recursive=True)
        except _GONE:
            return
        for child in children:
            self._members.setdefault(child.pid, child)

    def read(self) -> TreeUsage:
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

    def wait_ns(self) -> int | None:
        return None

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
