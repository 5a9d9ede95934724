"""Linux: one pread of /proc/PID/stat per process and sample, everything else at lower rates."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from rldyno.probe.linux_tasks import LinuxTasks
from rldyno.probe.tree import Carry, CpuTimes, TaskUsage, TreeUsage

_TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
# Fields of /proc/PID/stat, counted from the state, which follows the name in brackets.
_STATE, _PPID, _SESSION = 0, 1, 3
_UTIME, _STIME, _CUTIME, _CSTIME = 11, 12, 13, 14
_THREADS, _RSS = 17, 21


def _stat_fields(data: bytes) -> list[bytes]:
    return data[data.rindex(b")") + 2 :].split(None, _RSS + 1)


class LinuxTree:
    """Some processes, their descendants, and everything else in their sessions.

    The kernel's ledger of a process (stat) covers all its threads, also ended ones, and in cutime and cstime
    the children it has waited for: a child that lives and dies between two discoveries is still counted.
    """

    def __init__(self, roots: Sequence[int], proc: str = "/proc") -> None:
        self._proc = proc
        self._roots = frozenset(roots)
        self._stat: dict[int, int] = {}
        self._foreign: set[int] = set()
        self._last_pid = b""
        self._user, self._system = Carry(), Carry()
        self._tasks = LinuxTasks(proc)
        self._no_uss: dict[str, str] = {}
        self._loadavg = os.open(f"{proc}/loadavg", os.O_RDONLY)
        for root in roots:
            self._add(root)

    def _add(self, pid: int) -> None:
        with contextlib.suppress(OSError):
            self._stat[pid] = os.open(f"{self._proc}/{pid}/stat", os.O_RDONLY)

    def _drop(self, pid: int) -> None:
        os.close(self._stat.pop(pid))

    def discover(self) -> None:
        # /proc/PID/task/*/children is missing from many kernels. The last field of loadavg is the newest pid:
        # new processes are possible only when it has moved, and only unknown pids are read.
        last_pid = os.pread(self._loadavg, 128, 0).split()[-1]
        if last_pid == self._last_pid:
            return
        self._last_pid = last_pid
        alive = {int(name) for name in os.listdir(self._proc) if name.isdigit()}  # noqa: PTH208 (twice as fast)
        self._foreign &= alive
        unknown = alive - self._foreign - self._stat.keys()
        parents = {pid: found for pid in unknown if (found := self._ancestry(pid)) is not None}
        grown = True
        while grown:
            grown = False
            for pid, (parent, session) in list(parents.items()):
                if parent in self._stat or session in self._roots:
                    self._add(pid)
                    del parents[pid]
                    grown = True
        self._foreign |= parents.keys()

    def _ancestry(self, pid: int) -> tuple[int, int] | None:
        try:
            fields = _stat_fields(Path(f"{self._proc}/{pid}/stat").read_bytes())
        except OSError:
            return None
        return int(fields[_PPID]), int(fields[_SESSION])

    def take(self) -> list[bytes]:
        while self._stat:
            try:
                return [os.pread(descriptor, 1024, 0) for descriptor in self._stat.values()]
            except OSError:
                # Once more from the start: a parent that was read before this child ended, and waited for it
                # since, has the child's time now.
                self._drop_ended()
        raise ProcessLookupError(min(self._roots))

    def _drop_ended(self) -> None:
        for pid, descriptor in list(self._stat.items()):
            try:
                os.pread(descriptor, 1, 0)
            except OSError:
                self._drop(pid)

    def usage(self, taken: list[bytes]) -> TreeUsage | None:
        user = system = pages = threads = processes = 0
        for stat in taken:
            fields = _stat_fields(stat)
            user += int(fields[_UTIME]) + int(fields[_CUTIME])
            system += int(fields[_STIME]) + int(fields[_CSTIME])
            # A process that is ending has given its memory back before it is a zombie.
            if fields[_STATE] not in b"ZX" and fields[_RSS] != b"0":
                pages += int(fields[_RSS])
                threads += int(fields[_THREADS])
                processes += 1
        if not processes:
            return None
        return TreeUsage(
            cpu_user_ns=self._user(user) * _TICK_NS,
            cpu_system_ns=self._system(system) * _TICK_NS,
            rss_bytes=pages * _PAGE,
            processes=processes,
            threads=threads,
        )

    def tasks(self, now_ns: int) -> TaskUsage:
        return self._tasks.read(self._stat, now_ns)

    @property
    def reasons(self) -> Mapping[str, str]:
        return {**self._tasks.reasons, **self._no_uss}

    def uss_bytes(self) -> int | None:
        total, seen = 0, False
        for pid in self._stat:
            try:
                text = _read(f"{self._proc}/{pid}/smaps_rollup")
            except OSError as error:
                self._no_uss.setdefault("uss_bytes", f"smaps_rollup of the worker: {error.strerror}")
                continue
            for line in text.splitlines():
                if line.startswith((b"Private_Clean:", b"Private_Dirty:", b"Private_Hugetlb:")):
                    total += int(line.split()[1]) * 1024
                    seen = True
        if not seen:
            return None
        self._no_uss.clear()
        return total

    def peak_rss_bytes(self) -> int | None:
        return max(filter(None, map(self._peak_of, self._roots)), default=None)

    def _peak_of(self, pid: int) -> int | None:
        try:
            status = _read(f"{self._proc}/{pid}/status")
        except OSError:
            return None
        for line in status.splitlines():
            if line.startswith(b"VmHWM:"):
                return int(line.split()[1]) * 1024
        return None

    def pids(self) -> list[int]:
        return list(self._stat)

    def close(self) -> None:
        for pid in list(self._stat):
            self._drop(pid)
        os.close(self._loadavg)


class LinuxMachine:
    def __init__(self, proc: str = "/proc") -> None:
        self._proc = proc

    def cpu_times(self, cpus: tuple[int, ...] | None = None) -> CpuTimes:
        """Fields are user nice system idle iowait irq softirq steal, in ticks; guest time is inside user."""
        text = _read(f"{self._proc}/stat")
        # The first line is all CPUs together; each has a line of its own below.
        lines = text.splitlines() if cpus is not None else [text.partition(b"\n")[0]]
        names = {b"cpu"} if cpus is None else {b"cpu%d" % cpu for cpu in cpus}
        busy = total = steal = 0
        for line in lines:
            fields = line.split()
            if fields[0] not in names:
                continue
            user, nice, system, idle, iowait, irq, softirq, stolen = (int(field) for field in fields[1:9])
            busy += user + nice + system + irq + softirq
            total += user + nice + system + idle + iowait + irq + softirq + stolen
            steal += stolen
        second = 1_000_000_000 / _TICK_NS
        return CpuTimes(busy / second, total / second, steal / second)

    def memory_percent(self) -> float:
        values = {}
        for line in _read(f"{self._proc}/meminfo").splitlines()[:3]:
            name, _, rest = line.partition(b":")
            values[name] = int(rest.split()[0])
        return 100.0 * (1.0 - values[b"MemAvailable"] / values[b"MemTotal"])

    def oom_kills(self) -> int | None:
        with contextlib.suppress(OSError):
            for line in _read(f"{self._proc}/vmstat").splitlines():
                if line.startswith(b"oom_kill "):
                    return int(line.split()[1])
        return None


def _read(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        data = os.read(descriptor, 65536)
        while chunk := os.read(descriptor, 65536):
            data += chunk
        return data
    finally:
        os.close(descriptor)
