"""The probe on systems other than Linux: a fake psutil."""

from __future__ import annotations

import contextlib
from collections import namedtuple
from typing import Any

import psutil
import pytest

from rldyno.probe.portable import PortableMachine, PortableTree
from rldyno.probe.tree import CpuTimes, TaskUsage, TreeUsage

SECOND = 1_000_000_000
Times = namedtuple("Times", "user system children_user children_system")
Memory = namedtuple("Memory", "rss uss")
Switches = namedtuple("Switches", "voluntary involuntary")
Thread = namedtuple("Thread", "id user_time system_time")


class FakeProcess:
    def __init__(self, pid: int, user: float, rss: int, children: tuple[FakeProcess, ...] = ()) -> None:
        self.pid, self.user, self.rss, self.kids = pid, user, rss, children
        self.gone = self.denied = False

    def oneshot(self) -> Any:
        return contextlib.nullcontext()

    def children(self, recursive: bool) -> list[FakeProcess]:
        return [child for child in self.kids if not child.gone]

    def cpu_times(self) -> Times:
        if self.gone:
            raise psutil.NoSuchProcess(self.pid)
        return Times(self.user, 0.25, 0.0, 0.0)

    def memory_info(self) -> Memory:
        return Memory(self.rss, self.rss // 2)

    memory_full_info = memory_info

    def num_threads(self) -> int:
        return 2

    def num_ctx_switches(self) -> Switches:
        if self.gone:
            raise psutil.NoSuchProcess(self.pid)
        return Switches(100 * self.pid, 0)

    def threads(self) -> list[Thread]:
        if self.denied:
            raise psutil.AccessDenied(self.pid)
        return [Thread(10 * self.pid, self.user, 0.0), Thread(10 * self.pid + 1, 0.0, 0.0)]


def test_portable_tree_counts_children_and_remembers_ended_ones() -> None:
    child = FakeProcess(2, 1.5, 100)
    root = FakeProcess(1, 3.0, 1000, (child,))
    tree = PortableTree(1, lambda pid: root)
    tree.discover()
    assert tree.take() == TreeUsage(4_500_000_000, 500_000_000, 1100, 2, 4)
    assert tree.uss_bytes() == 550
    child.gone = True
    root.user = 3.5
    later = tree.take()
    assert (later.cpu_user_ns, later.processes) == (4_500_000_000, 1)
    root.user = 4.0
    assert tree.take().cpu_user_ns == 5_000_000_000
    root.gone = True
    with pytest.raises(ProcessLookupError):
        tree.take()


def test_portable_threads_and_switches() -> None:
    child = FakeProcess(2, 1.5, 100)
    root = FakeProcess(1, 3.0, 1000, (child,))
    tree = PortableTree(1, lambda pid: root)
    tree.discover()
    assert tree.tasks(0) == TaskUsage(context_switches=300)
    root.user = 3.5
    assert tree.tasks(SECOND) == TaskUsage(context_switches=300, threads_busy=1)
    child.gone = root.denied = child.denied = True
    assert tree.tasks(2 * SECOND) == TaskUsage(context_switches=300), "switches of the ended stay counted"
    assert all(tree.reasons[name] for name in TaskUsage._fields)


def test_portable_machine() -> None:
    cpu = namedtuple("cpu", "user system idle")

    class Api:
        @staticmethod
        def cpu_times(percpu: bool) -> list[Any]:
            return [cpu(10.0, 5.0, 85.0), cpu(40.0, 10.0, 50.0)]

        @staticmethod
        def virtual_memory() -> Any:
            return namedtuple("vm", "percent")(42.0)

    machine = PortableMachine(Api)
    assert machine.cpu_times() == CpuTimes(65.0, 200.0, None)
    assert machine.cpu_times((1,)) == CpuTimes(50.0, 100.0, None)
    assert machine.memory_percent() == 42.0
