"""The probe on a made-up process tree and a fake clock's worth of samples."""

from __future__ import annotations

import io
from typing import Any

import pytest

from probe_fakes import FakeMachine, FakeTree, sampled
from rldyno.probe import Probe
from rldyno.probe.metrics import sample_columns
from rldyno.probe.probe import busy_percent, idle_cpu_percent
from rldyno.probe.tree import CpuTimes


def test_busy_percent() -> None:
    assert busy_percent(CpuTimes(1, 10, 0), CpuTimes(3, 14, 0)) == 50.0
    assert busy_percent(CpuTimes(1, 10, 0), CpuTimes(1, 10, 0)) is None


def test_a_busy_machine_is_no_more_than_busy() -> None:
    """Rounded, the first of two equal differences is the larger one."""
    assert busy_percent(CpuTimes(4222.26, 11044.09, 0), CpuTimes(4223.39, 11045.22, 0)) == 100.0


class Joules:
    idle = False

    def read(self, time_ns: int, pids: Any, slow: bool) -> dict[str, Any]:
        return {"energy_joules": 1.5, "gpu_memory_bytes": 10 * len(pids)} if slow else {"gpu_percent": 7}


def test_rates_and_empty_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    tree = FakeTree()
    probe, rows = sampled(monkeypatch, [0, 0.05, 0.1, 1.0, 1.05, 2.0, 2.05], tree)
    assert tuple(rows[0]) == tuple(sample_columns())
    assert [row["wait_ns"] for row in rows] == ["5", "", "", "5", "", "5", ""]
    assert [row["uss_bytes"] for row in rows] == ["7", "", "", "", "", "7", ""]
    assert [row["machine_cpu_percent"] for row in rows] == ["", "", "", "25", "", "25", ""]
    assert [row["gpu_percent"] for row in rows] == [""] * 7
    for index, row in enumerate(rows, start=1):
        held = {name: int(row[name]) for name in ("cpu_user_ns", "cpu_system_ns", "rss_bytes", "threads")}
        assert held == {"cpu_user_ns": 10 * index, "cpu_system_ns": 1, "rss_bytes": 10 * index, "threads": 3}
    assert (tree.discovered, tree.uss_read, probe.samples) == (3, 2, 7)
    assert probe.peak_rss_bytes == 70


def test_private_memory_is_asked_for_again_after_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    tree = FakeTree()
    answers: list[int | None] = [None, 7, 8]
    monkeypatch.setattr(tree, "uss_bytes", lambda: answers.pop(0))
    _, rows = sampled(monkeypatch, [0, 1.0, 2.0, 3.0], tree)
    assert [row["uss_bytes"] for row in rows] == ["", "7", "", "8"]


def test_rss_nearest_to_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    probe, _ = sampled(monkeypatch, [0, 1.0, 2.0], FakeTree())
    assert [probe.memory.nearest(round(s * 1e9)) for s in (0, 0.1, 0.9, 2.1)] == [10, 10, 20, 30]
    assert probe.memory.nearest(round(2.5e9)) is None


def test_hardware_fills_its_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    _, rows = sampled(monkeypatch, [0, 0.05], FakeTree(), hardware=Joules())
    columns = ("energy_joules", "gpu_memory_bytes", "gpu_percent", "wait_ns")
    assert [tuple(row[name] for name in columns) for row in rows] == [
        ("1.5", "10", "", "5"),
        ("", "", "7", ""),
    ]


def test_a_second_of_samples_is_written_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    output = io.StringIO()
    probe = Probe([1], 20, output, 0, tree=FakeTree(), machine=FakeMachine())
    lines = []
    for second in (0, 1.0, 1.05, 1.95, 2.0):
        monkeypatch.setattr("rldyno.probe.probe.time.monotonic_ns", lambda s=second: round(s * 1e9))
        probe.sample()
        lines.append(output.getvalue().count("\n"))
    assert lines == [2, 3, 3, 3, 6]


def test_the_machine_is_read_oftener_at_first_so_that_short_trials_know_its_load(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    moments = [step * 0.05 for step in range(61)]
    _, rows = sampled(monkeypatch, moments, FakeTree())
    read = [moment for moment, row in zip(moments, rows, strict=True) if row["machine_memory_percent"]]
    assert read == pytest.approx([0, 0.25, 0.5, 1.0, 2.0, 3.0])


def test_the_end_of_the_tree_is_no_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    tree = FakeTree()
    probe, _ = sampled(monkeypatch, [0], tree)
    tree.alive = False
    assert not probe.sample()
    assert probe.samples == 1


def test_the_idle_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr("rldyno.probe.probe.open_machine", FakeMachine)
    monkeypatch.setattr("rldyno.probe.probe.time.sleep", waits.append)
    assert idle_cpu_percent() == 25.0
    assert waits == [1.0]
