"""One sample: what the tree has used and holds, what the machine is doing, what the readers say."""

from __future__ import annotations

import contextlib
import operator
import sys
import time
from collections.abc import Sequence
from typing import IO

from rldyno.memory import History
from rldyno.probe.readers import NullReader, Reader, Value
from rldyno.probe.tree import CpuTimes, Machine, Tree, TreeUsage
from rldyno_rig.schema import SAMPLE_COLUMNS

_SLOW_NS = 1_000_000_000
"""New children, wait time, peak, machine load: at 1 Hz. Ticks of 10 ms make faster load figures coarse."""
_RARE_NS = 2_000_000_000
"""USS makes the kernel walk the worker's page tables: every 2 s, less often where it would take more than
1/500 of a core."""
_RARE_COST = 500

# Most samples hold these figures only: written from a template, they cost a third less.
_QUICK = ("time_ns", *TreeUsage._fields)
_TEMPLATE = ",".join("%d" if column in _QUICK else "" for column in SAMPLE_COLUMNS) + "\n"
_ORDER = operator.itemgetter(*(_QUICK.index(column) for column in SAMPLE_COLUMNS if column in _QUICK))

UNSUPPORTED = NullReader("GPU and energy figures are not read on this machine")


def open_tree(pid: int) -> Tree:
    if sys.platform == "linux":
        from rldyno.probe.linux import LinuxTree

        return LinuxTree(pid)
    from rldyno.probe.portable import PortableTree

    return PortableTree(pid)


def open_machine() -> Machine:
    if sys.platform == "linux":
        from rldyno.probe.linux import LinuxMachine

        return LinuxMachine()
    from rldyno.probe.portable import PortableMachine

    return PortableMachine()


class Probe:
    """Samples the tree of `pid` whenever `sample` is called; `hz` only says how often that should be.

    Times are nanoseconds of the monotonic clock since `spawn_ns`. Rows go to `output`, flushed every second.
    """

    def __init__(
        self,
        pid: int,
        hz: float,
        output: IO[str],
        spawn_ns: int,
        *,
        tree: Tree | None = None,
        machine: Machine | None = None,
        readers: Sequence[Reader] = (UNSUPPORTED,),
    ) -> None:
        self.interval_ns = round(1e9 / hz)
        self.samples = 0
        self.peak_rss_bytes = 0
        self.cpu_ns = 0
        self.memory = History()
        self._tree = tree or open_tree(pid)
        self._machine = machine or open_machine()
        self._readers = [reader for reader in readers if reader.reason is None]
        self._output = output
        self._spawn_ns = spawn_ns
        self._next_slow = self._next_rare = self._next_flush = 0
        self._cpu_times: CpuTimes | None = None
        output.write(",".join(SAMPLE_COLUMNS) + "\n")

    def sample(self) -> bool:
        """Take and write one sample; False when nothing of the tree is left."""
        now = time.monotonic_ns()
        slow = now >= self._next_slow
        if slow:
            self._next_slow = now + _SLOW_NS
            self._tree.discover()
        try:
            usage = self._tree.read()
        except ProcessLookupError:
            return False
        self.samples += 1
        self._remember(now - self._spawn_ns, usage)
        quick = (now - self._spawn_ns, *usage)
        if slow or self._readers or now >= self._next_rare:
            row: dict[str, Value] = dict(zip(_QUICK, quick, strict=True))
            if slow:
                row.update(self._slow_figures())
            if now >= self._next_rare:
                row["uss_bytes"] = self._uss(now)
            for reader in self._readers:
                row.update(reader.read(self._tree.pids()))
            self._output.write(",".join([_text(row.get(column)) for column in SAMPLE_COLUMNS]) + "\n")
        else:
            self._output.write(_TEMPLATE % _ORDER(quick))
        if now >= self._next_flush:
            self._output.flush()
            self._next_flush = now + 1_000_000_000
        return True

    def _remember(self, time_ns: int, usage: TreeUsage) -> None:
        self.cpu_ns = usage.cpu_user_ns + usage.cpu_system_ns
        self.peak_rss_bytes = max(self.peak_rss_bytes, usage.rss_bytes)
        self.memory.add(time_ns, usage.rss_bytes)

    def _slow_figures(self) -> dict[str, Value]:
        self.peak_rss_bytes = max(self.peak_rss_bytes, self._tree.peak_rss_bytes() or 0)
        before, self._cpu_times = self._cpu_times, self._machine.cpu_times()
        return {
            "wait_ns": self._tree.wait_ns(),
            "machine_cpu_percent": None if before is None else busy_percent(before, self._cpu_times),
            "machine_memory_percent": self._machine.memory_percent(),
        }

    def _uss(self, now: int) -> int | None:
        uss = self._tree.uss_bytes()
        cost = time.monotonic_ns() - now
        self._next_rare = now + max(_RARE_NS, _RARE_COST * cost)
        self.memory.add_uss(now - self._spawn_ns, uss)
        return uss

    def pids(self) -> list[int]:
        return self._tree.pids()

    def close(self) -> None:
        """Release everything; an error of the last flush, a full disk, is the caller's to see."""
        with contextlib.suppress(OSError):
            self._tree.close()
        for reader in self._readers:
            reader.close()
        self._output.close()


def busy_percent(before: CpuTimes, after: CpuTimes) -> float | None:
    """Share of the time between two readings in which the CPUs worked; None if they are the same reading."""
    total = after.total_s - before.total_s
    return 100.0 * (after.busy_s - before.busy_s) / total if total > 0 else None


def _text(value: Value) -> str:
    if value is None:
        return ""
    return f"{value:.9g}" if isinstance(value, float) else str(value)
