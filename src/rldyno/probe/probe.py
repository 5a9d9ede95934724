"""Samples of a process tree, of the machine and of its hardware, as rows of samples.csv."""

from __future__ import annotations

import contextlib
import operator
import sys
import time
from collections.abc import Sequence
from typing import IO, TYPE_CHECKING, Any

from rldyno.probe.history import History
from rldyno.probe.memory_metrics import USS
from rldyno.probe.metric import Metric, Moment, UnreadableError, Value
from rldyno.probe.metrics import METRICS, sample_columns
from rldyno.probe.track import Track
from rldyno.probe.tree import CpuTimes, Machine, TaskUsage, Tree, TreeUsage

if TYPE_CHECKING:
    from rldyno.probe.hardware import Hardware

_SLOW_NS = 1_000_000_000
"""New children, threads, peak, machine load: at 1 Hz. Ticks of 10 ms make faster load figures inexact."""
FIRST_SLOW_NS = 250_000_000
"""More often at first, after 0.25, 0.5 and 1 s: short trials would end without any."""
_RARE_NS = 2_000_000_000
"""Expensive readings, such as USS, for which the kernel walks the worker's page tables: every 2 s, less often
where they would take more than 1/1000 of a core."""
_RARE_COST = 1000

_EVERY_SAMPLE = ("time_ns", *TreeUsage._fields)


def open_tree(pids: Sequence[int]) -> Tree:
    if sys.platform == "linux":
        from rldyno.probe.linux import LinuxTree

        return LinuxTree(pids)
    from rldyno.probe.portable import PortableTree

    return PortableTree(pids)


def open_machine() -> Machine:
    if sys.platform == "linux":
        from rldyno.probe.linux import LinuxMachine

        return LinuxMachine()
    from rldyno.probe.portable import PortableMachine

    return PortableMachine()


class Probe:
    """Samples the trees of `pids`, as one, whenever `sample` is called; `hz` is how often that should be.

    Times are nanoseconds of the monotonic clock since `spawn_ns`. Samples are kept as they were read, and
    made into rows of `output` once a second: what a crash can lose.
    """

    def __init__(
        self,
        pids: Sequence[int],
        hz: float,
        output: IO[str],
        spawn_ns: int,
        *,
        tree: Tree | None = None,
        machine: Machine | None = None,
        hardware: Hardware | None = None,
    ) -> None:
        self.interval_ns = round(1e9 / hz)
        self.samples = 0
        self.peak_rss_bytes = 0
        self.peak_threads = 0
        self.cpu_ns = 0
        self.memory = History()
        self.tasks = TaskUsage()
        """The latest reading of the threads."""
        self.tracks = {metric.name: Track() for metric in METRICS if metric.read and metric.figures}
        self._metrics = {metric.name: metric for metric in METRICS}
        self._quick = [metric for metric in METRICS if metric.read and metric.rate == "sample"]
        self._slow = [metric for metric in METRICS if metric.read and metric.rate == "second"]
        self._rare = {metric.name: 0 for metric in METRICS if metric.read and metric.rate == "rare"}
        """Metric → when it is read next."""
        self._reasons: dict[str, str] = {}
        self._columns = tuple(sample_columns())
        # Most samples hold only what the tree shows: written from a template, they cost a third less.
        tree_only = [column for column in self._columns if column in _EVERY_SAMPLE]
        self._template = ",".join("%d" if name in tree_only else "" for name in self._columns) + "\n"
        self._order = operator.itemgetter(*(_EVERY_SAMPLE.index(column) for column in tree_only))
        self.tree = tree or open_tree(pids)
        self._machine = machine or open_machine()
        self._hardware = None if hardware is None or hardware.idle else hardware
        self._output = output
        self._spawn_ns = spawn_ns
        self._pending: list[tuple[int, Any, dict[str, Value] | None]] = []
        self._next_slow = 0
        self._cpu_times: CpuTimes | None = None
        self._moment = Moment(0, self.tree, self.tasks, self._machine, None)
        output.write(",".join(self._columns) + "\n")

    def sample(self) -> bool:
        """Take one sample; False when nothing of the tree is left."""
        now = time.monotonic_ns()
        slow = now >= self._next_slow
        if slow:
            self.tree.discover()
        try:
            taken = self.tree.take()
        except ProcessLookupError:
            return False
        more = self._slow_values(now) if slow else None
        if self._quick:
            moment = self._moment._replace(time_ns=now - self._spawn_ns)
            more = (more or {}) | {metric.name: self._read(metric, moment) for metric in self._quick}
        if self._hardware is not None:
            more = (more or {}) | self._hardware.read(now - self._spawn_ns, self.tree.pids(), slow)
        self._pending.append((now - self._spawn_ns, taken, more))
        if slow:
            self._next_slow = now + min(_SLOW_NS, max(FIRST_SLOW_NS, now - self._spawn_ns))
            self.write()
        return True

    def _slow_values(self, now: int) -> dict[str, Value]:
        self.peak_rss_bytes = max(self.peak_rss_bytes, self.tree.peak_rss_bytes() or 0)
        before, self._cpu_times = self._cpu_times, self._machine.cpu_times()
        self.tasks = self.tree.tasks(now)
        percent = None if before is None else busy_percent(before, self._cpu_times)
        moment = Moment(now - self._spawn_ns, self.tree, self.tasks, self._machine, percent)
        self._moment = moment
        values = {metric.name: self._read(metric, moment) for metric in self._slow}
        for name, due in self._rare.items():
            if now >= due:
                begin = time.thread_time_ns()
                values[name] = value = self._read(self._metrics[name], moment)
                cost = time.thread_time_ns() - begin
                if value is not None:  # a process shows nothing while it becomes another program
                    self._rare[name] = now + max(_RARE_NS, _RARE_COST * cost)
        self.memory.add_uss(moment.time_ns, values.get(USS))
        return values

    def _read(self, metric: Metric[Any], moment: Moment) -> Value:
        assert metric.read is not None
        try:
            value = metric.read(moment)
        except (UnreadableError, OSError) as error:
            self._reasons[metric.name] = str(error)
            return None
        if metric.name in self.tracks:
            self.tracks[metric.name].add(moment.time_ns, value)
        return value

    def why(self, metric: str) -> str:
        """The reason where a metric has no reading."""
        known = self._reasons.get(metric) or self.tree.reasons.get(metric)
        return known or self._metrics[metric].missing

    def write(self) -> None:
        """Turn the samples since the last time into rows."""
        for time_ns, taken, more in self._pending:
            usage = self.tree.usage(taken)
            if usage is None:
                continue
            self._remember(time_ns, usage)
            quick = (time_ns, *usage)
            if more is None:
                self._output.write(self._template % self._order(quick))
            else:
                row = dict(zip(_EVERY_SAMPLE, quick, strict=True)) | more
                self._output.write(",".join([_text(row.get(column)) for column in self._columns]) + "\n")
        self._pending.clear()
        self._output.flush()

    def _remember(self, time_ns: int, usage: TreeUsage) -> None:
        self.samples += 1
        self.cpu_ns = usage.cpu_user_ns + usage.cpu_system_ns
        self.peak_rss_bytes = max(self.peak_rss_bytes, usage.rss_bytes)
        self.peak_threads = max(self.peak_threads, usage.threads)
        self.memory.add(time_ns, usage.rss_bytes)

    def pids(self) -> list[int]:
        return self.tree.pids()

    def close(self) -> None:
        """Write what is pending and release everything; a full disk is the caller's to see."""
        try:
            self.write()
        finally:
            with contextlib.suppress(OSError):
                self.tree.close()
            self._output.close()


def busy_percent(before: CpuTimes, after: CpuTimes) -> float | None:
    """Share of the time between two readings in which the CPUs worked; None if they are the same reading."""
    total = after.total_s - before.total_s
    if total <= 0:
        return None
    # Differences of large sums: rounding may leave 100.0000000000084.
    return min(100.0, max(0.0, 100.0 * (after.busy_s - before.busy_s) / total))


def idle_cpu_percent(seconds: float = 1.0) -> float | None:
    """CPU use of the whole machine while this process only waits."""
    machine = open_machine()
    before = machine.cpu_times()
    time.sleep(seconds)
    return busy_percent(before, machine.cpu_times())


def _text(value: Value) -> str:
    if value is None:
        return ""
    return f"{value:.9g}" if isinstance(value, float) else str(value)
