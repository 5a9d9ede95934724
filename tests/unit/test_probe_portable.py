"""The probe on systems other than Linux: a fake psutil."""

from __future__ import annotations

import contextlib
import csv
import io
import os
import subprocess
import sys
import time
from collections import namedtuple
from typing import Any

import psutil
import pytest

from rldyno.probe import Probe
from rldyno.probe.portable import PortableMachine, PortableTree
from rldyno.probe.probe import open_machine, open_tree
from rldyno.probe.tree import CpuTimes, TaskUsage, TreeUsage

SECOND = 1_000_000_000
Times = namedtuple("Times", "user system children_user children_system")
Memory = namedtuple("Memory", "rss uss")
Switches = namedtuple("Switches", "voluntary involuntary")
Thread = namedtuple("Thread", "id user_time system_time")


class FakeProcess:
    """`says`: name of a call → what it raises instead of answering."""

    def __init__(self, pid: int, user: float, rss: int, children: tuple[FakeProcess, ...] = ()) -> None:
        self.pid, self.user, self.rss, self.kids = pid, user, rss, children
        self.says: dict[str, Exception] = {}

    def __getattribute__(self, name: str) -> Any:
        says = {} if name == "says" else object.__getattribute__(self, "__dict__").get("says", {})
        if name in says and isinstance(says[name], AttributeError):
            raise says[name]
        found = object.__getattribute__(self, name)
        return (lambda *a, **k: fail(says[name])) if name in says else found

    def ends(self, how: type[psutil.NoSuchProcess] = psutil.NoSuchProcess) -> None:
        calls = ("cpu_times", "memory_info", "num_threads", "num_ctx_switches", "threads", "memory_full_info")
        self.says = dict.fromkeys(calls, how(self.pid))

    def oneshot(self) -> Any:
        return contextlib.nullcontext()

    def children(self, recursive: bool) -> list[FakeProcess]:
        return [child for child in self.kids if "cpu_times" not in child.says]

    def cpu_times(self) -> Times:
        return Times(self.user, 0.25, 0.0, 0.0)

    def memory_info(self) -> Memory:
        return Memory(self.rss, self.rss // 2)

    memory_full_info = memory_info

    def num_threads(self) -> int:
        return 2

    def num_ctx_switches(self) -> Switches:
        return Switches(100 * self.pid, 0)

    def threads(self) -> list[Thread]:
        return [Thread(10 * self.pid, self.user, 0.0), Thread(10 * self.pid + 1, 0.0, 0.0)]


def fail(error: Exception) -> Any:
    raise error


def family() -> tuple[PortableTree, FakeProcess, FakeProcess]:
    child = FakeProcess(2, 1.5, 100)
    root = FakeProcess(1, 3.0, 1000, (child,))
    tree = PortableTree([1], lambda pid: root)
    tree.discover()
    return tree, root, child


@pytest.mark.parametrize("how", [psutil.NoSuchProcess, psutil.ZombieProcess])
def test_portable_tree_counts_children_and_remembers_ended_ones(how: type[psutil.NoSuchProcess]) -> None:
    tree, root, child = family()
    assert tree.take() == TreeUsage(4_500_000_000, 500_000_000, 1100, 2, 4)
    assert tree.uss_bytes() == 550
    child.ends(how)
    root.user = 3.5
    later = tree.take()
    assert (later.cpu_user_ns, later.rss_bytes, later.processes) == (4_500_000_000, 1000, 1)
    root.user = 4.0
    assert tree.take().cpu_user_ns == 5_000_000_000
    root.ends()
    with pytest.raises(ProcessLookupError):
        tree.take()


@pytest.mark.parametrize("call", ["cpu_times", "memory_info", "num_threads"])
def test_a_process_that_is_denied_for_a_while_counts_once(call: str) -> None:
    tree, root, child = family()
    whole = tree.take()
    child.says = {call: psutil.AccessDenied(2)}
    assert tree.take() == whole
    child.says = {}
    tree.discover()
    root.user += 1.0
    assert tree.take() == whole._replace(cpu_user_ns=whole.cpu_user_ns + SECOND)


def test_a_process_that_is_always_denied_is_no_part_of_any_sum() -> None:
    tree, _, child = family()
    child.says = {"num_threads": psutil.AccessDenied(2)}
    assert tree.take() == TreeUsage(3_000_000_000, 250_000_000, 1000, 1, 2)


def test_portable_threads_and_switches() -> None:
    tree, root, child = family()
    assert tree.tasks(0) == TaskUsage(context_switches=300)
    root.user = 3.5
    assert tree.tasks(SECOND) == TaskUsage(context_switches=300, threads_busy=1)
    unread = {"wait_ns", "involuntary_switches", "threads_runnable", "threads_competing", "uss_bytes"}
    assert set(tree.reasons) == unread
    child.ends()
    root.says = {"threads": psutil.AccessDenied(1)}
    assert tree.tasks(2 * SECOND) == TaskUsage(context_switches=300), "switches of the ended stay counted"
    root.says = {"num_ctx_switches": psutil.AccessDenied(1)}
    assert tree.tasks(3 * SECOND).context_switches == 300
    root.says = {}
    assert tree.tasks(4 * SECOND).context_switches == 300


@pytest.mark.parametrize(
    "error", [psutil.AccessDenied(1), AttributeError("no such name"), NotImplementedError("not here")]
)
def test_what_a_system_does_not_have_is_unknown_and_says_why(error: Exception) -> None:
    tree, root, child = family()
    for member in (root, child):
        member.says = dict.fromkeys(("threads", "num_ctx_switches", "memory_full_info"), error)
    assert tree.take().rss_bytes == 1100
    assert [tree.tasks(second * SECOND) for second in (0, 1)] == [TaskUsage()] * 2
    assert tree.uss_bytes() is None
    assert set(tree.reasons) == {*TaskUsage._fields, "uss_bytes"}
    assert all(tree.reasons.values())


def test_memory_figures_without_uss_are_no_private_memory() -> None:
    """Some systems answer with the plain figures."""
    tree, root, child = family()
    for member in (root, child):
        object.__setattr__(member, "memory_full_info", lambda: namedtuple("Plain", "rss")(5))
    assert tree.uss_bytes() is None
    assert "uss_bytes" in tree.reasons


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


@pytest.mark.parametrize("system", ["darwin", "win32"])
def test_other_systems_are_watched_through_psutil(monkeypatch: pytest.MonkeyPatch, system: str) -> None:
    monkeypatch.setattr(sys, "platform", system)
    assert isinstance(open_tree([os.getpid()]), PortableTree)
    assert isinstance(open_machine(), PortableMachine)


def test_the_probe_needs_no_module_that_windows_lacks() -> None:
    parts = ("hardware", "perf", "portable", "probe", "summary")
    hidden = "sys.modules.update(dict.fromkeys(('resource', 'fcntl', 'pwd', 'grp', 'termios')))"
    names = ", ".join(f"rldyno.probe.{part}" for part in parts)
    code = f"import psutil, sys; {hidden}; import {names}"  # psutil has a part of its own for every system
    subprocess.run([sys.executable, "-c", code], check=True)


COMPARED = ("processes", "threads", "cpu_user_ns", "cpu_system_ns", "rss_bytes", "uss_bytes")
WORK = """
import subprocess, sys, threading, time
block = b"x" * (64 * 2**20)
child = subprocess.Popen([sys.executable, "-S", "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
while time.process_time() < 0.5: pass
print(flush=True)
sys.stdin.read()
child.communicate()
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="there is nothing to compare with")
def test_psutil_and_proc_agree_on_a_real_tree() -> None:
    """Stated error: a tick of 10 ms per process and kind of time, a mebibyte; counts are exact."""
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-S", "-c", WORK], stdin=pipe, stdout=pipe) as worker:
        assert worker.stdout is not None
        worker.stdout.readline()
        rows = {}
        for name, tree in (("psutil", PortableTree([worker.pid])), ("proc", open_tree([worker.pid]))):
            output = io.StringIO()
            probe = Probe([worker.pid], 20, output, time.monotonic_ns(), tree=tree)
            assert probe.sample()
            probe.write()
            (rows[name],) = csv.DictReader(io.StringIO(output.getvalue()))
            tree.close()
        worker.communicate()
    one, other = ({column: int(row[column]) for column in COMPARED} for row in rows.values())
    for column in ("processes", "threads"):
        assert one[column] == other[column], column
    for column in ("cpu_user_ns", "cpu_system_ns"):
        assert one[column] == pytest.approx(other[column], abs=2 * 10_000_000), column
    for column in ("rss_bytes", "uss_bytes"):
        assert one[column] == pytest.approx(other[column], abs=2**20), column
    assert one["rss_bytes"] > one["uss_bytes"] > 64 * 2**20
