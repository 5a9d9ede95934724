"""Process trees, threads and the machine as Linux shows them: a fake /proc."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rldyno.probe.linux import LinuxMachine, LinuxTree
from rldyno.probe.tree import Carry, CpuTimes, TaskUsage, TreeUsage

TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
SECOND = 1_000_000_000


class FakeProc:
    """A /proc with the files the probe reads."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.newest_pid(100)

    def newest_pid(self, pid: int) -> None:
        (self.root / "loadavg").write_text(f"0.1 0.2 0.3 1/200 {pid}\n")

    def process(
        self, pid: int, parent: int, *, session: int = 0, cpu=(0, 0, 0, 0), threads=1, rss_pages=1, state="S"
    ) -> None:
        folder = self.root / str(pid)
        folder.mkdir(exist_ok=True)
        fields = [
            state,
            parent,
            pid,
            session,
            0,
            -1,
            0,
            0,
            0,
            0,
            0,
            *cpu,
            20,
            0,
            threads,
            0,
            12345,
            999,
            rss_pages,
            1,
        ]
        (folder / "stat").write_text(f"{pid} (odd) name (x)) " + " ".join(map(str, fields)) + "\n")

    def task(self, pid: int, task: int, run_ns: int, wait_ns: int, switches=(0, 0)) -> None:
        folder = self.root / str(pid) / "task" / str(task)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "schedstat").write_text(f"{run_ns} {wait_ns} {sum(switches)}\n")
        (folder / "status").write_text(
            f"Name:\tx\nvoluntary_ctxt_switches:\t{switches[0]}\nnonvoluntary_ctxt_switches:\t{switches[1]}\n"
        )

    def end_task(self, pid: int, task: int) -> None:
        shutil.rmtree(self.root / str(pid) / "task" / str(task))


@pytest.fixture
def proc(tmp_path: Path) -> FakeProc:
    return FakeProc(tmp_path)


def open_tree(proc: FakeProc, root: int) -> LinuxTree:
    return LinuxTree([root], str(proc.root))


def read(tree: Any) -> TreeUsage:
    usage = tree.usage(tree.take())
    assert usage is not None
    return usage


def test_one_process(proc: FakeProc) -> None:
    proc.process(10, 1, cpu=(100, 20, 7, 3), threads=4, rss_pages=50)
    assert read(open_tree(proc, 10)) == TreeUsage(
        cpu_user_ns=107 * TICK_NS, cpu_system_ns=23 * TICK_NS, rss_bytes=50 * PAGE, processes=1, threads=4
    )


def test_descendants_and_session_members_belong_to_the_tree(proc: FakeProc) -> None:
    proc.process(10, 1, session=10, cpu=(1, 0, 0, 0))
    proc.process(11, 10, session=10, cpu=(2, 0, 0, 0))
    proc.process(12, 11, session=12, cpu=(4, 0, 0, 0))  # a grandchild with a session of its own
    proc.process(13, 1, session=10, cpu=(8, 0, 0, 0))  # its parent ended, its session is still the worker's
    proc.process(14, 1, session=14, cpu=(1000, 0, 0, 0))
    tree = open_tree(proc, 10)
    tree.discover()
    assert sorted(tree.pids()) == [10, 11, 12, 13]
    assert read(tree).cpu_user_ns == 15 * TICK_NS


def test_looking_for_children_only_when_a_pid_was_handed_out(proc: FakeProc) -> None:
    proc.process(10, 1)
    tree = open_tree(proc, 10)
    tree.discover()
    proc.process(11, 10)
    tree.discover()
    assert tree.pids() == [10]
    proc.newest_pid(101)
    tree.discover()
    assert tree.pids() == [10, 11]


def test_zombies_keep_their_time_but_hold_nothing(proc: FakeProc) -> None:
    proc.process(10, 1, cpu=(5, 0, 0, 0), rss_pages=3)
    proc.process(11, 10, cpu=(7, 0, 0, 0), rss_pages=9, state="Z")
    tree = open_tree(proc, 10)
    tree.discover()
    usage = read(tree)
    assert (usage.cpu_user_ns, usage.rss_bytes, usage.processes) == (12 * TICK_NS, 3 * PAGE, 1)


def test_a_process_that_is_ending_holds_nothing_and_is_not_counted(proc: FakeProc) -> None:
    proc.process(10, 1, rss_pages=3)
    proc.process(11, 10, cpu=(7, 0, 0, 0), rss_pages=0, threads=1, state="R")
    tree = open_tree(proc, 10)
    tree.discover()
    usage = read(tree)
    assert (usage.cpu_user_ns, usage.rss_bytes, usage.processes) == (7 * TICK_NS, 3 * PAGE, 1)


def test_a_tree_of_zombies_is_gone(proc: FakeProc) -> None:
    proc.process(10, 1, state="Z")
    tree = open_tree(proc, 10)
    assert tree.usage(tree.take()) is None


def test_a_child_that_is_waited_for_within_a_sample_counts_once(
    proc: FakeProc, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its parent was read before it ended: that reading lacks its time, the next would count it twice."""
    proc.process(10, 1, cpu=(5, 0, 0, 0))
    proc.process(11, 10, cpu=(7, 0, 0, 0))
    tree = open_tree(proc, 10)
    tree.discover()
    child, pread, ended = tree._stat[11], os.pread, []

    def ends_before_it_is_read(descriptor: int, size: int, offset: int) -> bytes:
        if descriptor != child:
            return pread(descriptor, size, offset)
        if not ended:
            ended.append(True)
            proc.process(10, 1, cpu=(5, 0, 7, 0))
        raise ProcessLookupError

    assert read(tree).cpu_user_ns == 12 * TICK_NS
    monkeypatch.setattr("rldyno.probe.linux.os.pread", ends_before_it_is_read)
    assert [read(tree).cpu_user_ns for _ in range(3)] == [12 * TICK_NS] * 3
    assert tree.pids() == [10]


def test_totals_of_all_threads_also_ended_ones(proc: FakeProc) -> None:
    proc.process(10, 1)
    proc.task(10, 10, 0, 1000, (5, 1))
    proc.task(10, 77, 0, 500, (2, 2))
    tree = open_tree(proc, 10)
    assert tree.tasks(0) == TaskUsage(wait_ns=1500, context_switches=10, involuntary_switches=3)
    proc.end_task(10, 77)
    proc.task(10, 10, 0, 1100, (6, 1))
    assert tree.tasks(SECOND)[:3] == (1600, 11, 3)


def test_threads_that_ran_and_threads_that_could_have(proc: FakeProc) -> None:
    proc.process(10, 1)
    for task in (10, 11, 12):
        proc.task(10, task, 0, 0)
    tree = open_tree(proc, 10)
    first = tree.tasks(0)
    assert (first.threads_busy, first.threads_runnable) == (None, None), "nothing to compare with yet"
    proc.task(10, 10, SECOND // 2, SECOND // 2, (1, 0))  # two that take turns on one CPU
    proc.task(10, 11, SECOND // 2, SECOND // 2, (1, 0))
    proc.task(10, 12, SECOND // 200, 0, (1, 0))  # one that only looks up now and then
    second = tree.tasks(SECOND)
    assert second.threads_busy == 2
    assert second.threads_runnable == pytest.approx(2.005)
    assert second.threads_competing == pytest.approx(2.005)
    assert tree.tasks(2 * SECOND)[3:] == (0, 0.0, 0.0)


def test_waiting_for_other_processes_is_no_competition(proc: FakeProc) -> None:
    """The emulator of a game and the thread that waits for it, on a core that others use most."""
    proc.process(10, 1)
    for task in (10, 11):
        proc.task(10, task, 0, 0)
    tree = open_tree(proc, 10)
    tree.tasks(0)
    proc.task(10, 10, SECOND // 10, SECOND * 8 // 10, (1, 0))
    proc.task(10, 11, SECOND // 10, SECOND * 8 // 10, (1, 0))
    usage = tree.tasks(SECOND)
    assert usage.threads_runnable == pytest.approx(1.8)
    assert usage.threads_competing == pytest.approx(0.4), "each waited for the other a tenth at most"


def test_many_threads_in_a_short_burst_compete(proc: FakeProc) -> None:
    proc.process(10, 1)
    for task in range(10, 26):
        proc.task(10, task, 0, 0)
    tree = open_tree(proc, 10)
    tree.tasks(0)
    for task in range(10, 26):
        proc.task(10, task, SECOND // 50, SECOND * 3 // 10, (1, 0))
    assert tree.tasks(SECOND).threads_competing == pytest.approx(16 * 0.32)


def test_kernels_that_do_not_account_for_threads(proc: FakeProc) -> None:
    proc.process(10, 1)
    tree = open_tree(proc, 10)
    assert tree.tasks(0) == TaskUsage()
    assert set(tree.reasons) == set(TaskUsage._fields)
    assert "CONFIG_SCHED_INFO" in tree.reasons["wait_ns"]


def test_kernels_that_count_no_times_of_threads_still_count_switches(proc: FakeProc) -> None:
    """Without scheduler statistics every schedstat reads `0 0 0`: no time is known, not none was used."""
    proc.process(10, 1)
    for second in range(3):
        proc.task(10, 10, 0, 0)
        proc.task(10, 11, 0, 0)
        for task in (10, 11):
            status = proc.root / f"10/task/{task}/status"
            status.write_text(
                f"voluntary\nvoluntary_ctxt_switches:\t{second}\nnonvoluntary_ctxt_switches:\t1\n"
            )
        if second == 0:
            tree = open_tree(proc, 10)
        usage = tree.tasks(second * SECOND)
        assert usage == TaskUsage(context_switches=2 * (second + 1), involuntary_switches=2)
    assert set(tree.reasons) == {"wait_ns", "threads_busy", "threads_runnable", "threads_competing"}
    proc.task(10, 10, SECOND, 0, (2, 1))
    assert tree.tasks(3 * SECOND).threads_busy == 1
    assert not tree.reasons


def test_private_memory_that_cannot_be_read_says_why(proc: FakeProc) -> None:
    proc.process(10, 1)
    proc.task(10, 10, 1, 0)
    tree = open_tree(proc, 10)
    tree.tasks(0)
    assert tree.uss_bytes() is None
    assert tree.reasons == {"uss_bytes": "smaps_rollup of the worker: No such file or directory"}
    (proc.root / "10/smaps_rollup").write_text("Private_Clean: 30 kB\n")
    assert tree.uss_bytes() == 30 * 1024
    assert tree.reasons == {}


def test_private_memory_and_peak(proc: FakeProc) -> None:
    proc.process(10, 1)
    (proc.root / "10/smaps_rollup").write_text(
        "00-ff ---p [rollup]\nRss: 900 kB\nShared_Clean: 500 kB\nPrivate_Clean: 30 kB\nPrivate_Dirty: 12 kB\n"
    )
    (proc.root / "10/status").write_text("Name: x\nVmHWM:\t  1234 kB\nVmRSS: 900 kB\n")
    tree = open_tree(proc, 10)
    assert tree.uss_bytes() == 42 * 1024
    assert tree.peak_rss_bytes() == 1234 * 1024


def test_machine_counts_the_chosen_cpus(proc: FakeProc) -> None:
    (proc.root / "stat").write_text(
        "cpu  30 0 30 100 40 0 0 20 0 0\n"
        "cpu0 10 0 10 50 20 0 0 10 0 0\n"
        "cpu1 20 0 20 50 20 0 0 10 0 0\n"
        "intr 5\n"
    )
    machine = LinuxMachine(str(proc.root))
    seconds = 1 / os.sysconf("SC_CLK_TCK")
    assert machine.cpu_times() == CpuTimes(60 * seconds, 220 * seconds, 20 * seconds)
    assert machine.cpu_times((1,)) == CpuTimes(40 * seconds, 120 * seconds, 10 * seconds)


def test_machine_memory_and_kills(proc: FakeProc) -> None:
    (proc.root / "meminfo").write_text(
        "MemTotal: 1000 kB\nMemFree: 1 kB\nMemAvailable: 250 kB\nBuffers: 3 kB\n"
    )
    (proc.root / "vmstat").write_text("nr_free_pages 4\noom_kill 7\n")
    machine = LinuxMachine(str(proc.root))
    assert machine.memory_percent() == 75.0
    assert machine.oom_kills() == 7


@given(st.lists(st.integers(0, 10**12)))
def test_carried_totals_never_fall_and_never_lose_growth(totals: list[int]) -> None:
    carry = Carry()
    out = [carry(total) for total in totals]
    growth = [max(0, after - before) for before, after in zip([0, *totals], totals, strict=False)]
    assert out == [sum(growth[: i + 1]) for i in range(len(totals))]
