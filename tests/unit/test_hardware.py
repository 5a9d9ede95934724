"""CPU energy, hardware counters, readings over time, and what becomes of them in an outcome."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from probe_fakes import energy_figures, figures_of, trained, watched_worker
from rldyno.probe import perf
from rldyno.probe.hardware import NO_GPU_USED, Hardware
from rldyno.probe.perf import TYPE_SOFTWARE, Counters, why_not
from rldyno.probe.rapl import RaplReader
from rldyno.probe.readings import Counted, Idle, training_span
from rldyno.probe.summary import oversubscription_warning
from rldyno.probe.track import Meter, Span, Track
from rldyno.probe.tree import TaskUsage

SECOND = 1_000_000_000
MICRO = 1_000_000


def zone(root: Path, number: str, name: str, energy_uj: int, limit_uj: int = 1000 * MICRO) -> Path:
    folder = root / f"intel-rapl:{number}"
    folder.mkdir(exist_ok=True)
    (folder / "name").write_text(name + "\n")
    (folder / "max_energy_range_uj").write_text(f"{limit_uj}\n")
    (folder / "energy_uj").write_text(f"{energy_uj}\n")
    return folder


def test_packages_are_added_up_and_their_parts_are_not(tmp_path: Path) -> None:
    zone(tmp_path, "0", "package-0", 5 * MICRO)
    zone(tmp_path, "1", "package-1", 9 * MICRO)
    zone(tmp_path, "2", "psys", 0)
    zone(tmp_path, "0:0", "core", 0)
    reader = RaplReader(tmp_path)
    zone(tmp_path, "0", "package-0", 15 * MICRO)
    zone(tmp_path, "1", "package-1", 10 * MICRO)
    zone(tmp_path, "2", "psys", 500 * MICRO)
    zone(tmp_path, "0:0", "core", 500 * MICRO)
    assert reader.read(0, [], slow=False) == {}
    assert reader.read(0, [], slow=True) == {"cpu_energy_joules": 11.0}


def test_a_counter_that_starts_again(tmp_path: Path) -> None:
    zone(tmp_path, "0", "package-0", 999 * MICRO)
    reader = RaplReader(tmp_path)
    for counter, joules in ((1000 * MICRO, 1.0), (2 * MICRO - 1, 3.0), (500 * MICRO - 1, 501.0)):
        zone(tmp_path, "0", "package-0", counter)
        assert reader.read(0, [], slow=True) == {"cpu_energy_joules": joules}


def test_a_counter_that_was_set_back_is_no_energy(tmp_path: Path) -> None:
    zone(tmp_path, "0", "package-0", 400 * MICRO)
    reader = RaplReader(tmp_path)
    zone(tmp_path, "0", "package-0", 3 * MICRO)
    assert reader.read(4 * SECOND, [], slow=True) == {}
    assert "was set back from 400000000 to 3000000" in reader.reasons["cpu_energy_joules"]


def test_a_counter_that_stands_still_is_no_energy(tmp_path: Path) -> None:
    zone(tmp_path, "0", "package-0", 7 * MICRO)
    still = Hardware(RaplReader(tmp_path), None, NO_GPU_USED)
    for second in range(3):
        still.read(second * SECOND, [], slow=True)
    still.finish(3 * SECOND)
    block = energy_figures(still, None)
    assert (block["cpu_joules"], block["total_joules"]) == (None, None)
    assert "did not move" in block["reasons"]["cpu_joules"]
    assert "did not move" in block["reasons"]["total_joules"]
    zone(tmp_path, "0", "package-0", 8 * MICRO)
    still.finish(4 * SECOND)
    assert energy_figures(still, None)["cpu_joules"] == 1.0


def test_no_zone_and_a_broken_one(tmp_path: Path) -> None:
    assert "a virtual machine hides it" in RaplReader(tmp_path).reasons["cpu_energy_joules"]
    folder = zone(tmp_path, "0", "package-0", 0)
    reader = RaplReader(tmp_path)
    (folder / "energy_uj").unlink()
    assert reader.read(2 * SECOND, [], slow=True) == {}
    assert "failed after 2.0 s" in reader.reasons["cpu_energy_joules"]


def test_a_counter_for_root_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    zone(tmp_path, "0", "package-0", 0)
    read_text = Path.read_text

    def guarded(path: Path, *arguments: Any, **options: Any) -> str:
        if path.name == "energy_uj":
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return read_text(path, *arguments, **options)

    monkeypatch.setattr(Path, "read_text", guarded)
    assert "sudo chmod a+r" in RaplReader(tmp_path).reasons["cpu_energy_joules"]


# --- counters ---


BURN = """
import subprocess, sys, threading, time
def burn(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end: pass
sys.stdin.read(1)
thread = threading.Thread(target=burn, args=(0.1,)); thread.start(); burn(0.1); thread.join()
subprocess.run([sys.executable, "-S", "-c", "import time\\nwhile time.process_time() < 0.1: pass"])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="perf_event_open is Linux's")
def test_counters_cover_threads_and_children_to_come() -> None:
    """With the kernel's own clock as the counter, which every machine has: 3 × 0.1 s."""
    worker = subprocess.Popen([sys.executable, "-S", "-c", BURN], stdin=subprocess.PIPE)
    counters = Counters([worker.pid], {"task_clock_ns": 1, "nonsense": 999}, TYPE_SOFTWARE)
    worker.communicate(b"x")
    if "task_clock_ns" in counters.reasons:
        pytest.skip(counters.reasons["task_clock_ns"])
    totals = counters.read()
    counters.close()
    assert totals["task_clock_ns"] is not None
    assert 0.3 * SECOND <= totals["task_clock_ns"] < 1.0 * SECOND
    assert totals["nonsense"] is None
    assert counters.reasons["nonsense"]


def test_a_counter_that_shared_the_hardware_is_scaled(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([(400, 100, 100), (400, 100, 50), (0, 100, 0), (7, 1, 1)])
    monkeypatch.setattr(perf, "_perf_event_open", lambda pid, kind, config, flags: config)
    monkeypatch.setattr(perf.os, "read", lambda descriptor, size: perf.struct.pack("=QQQ", *next(answers)))
    counters = Counters([1])
    assert counters.read() == {
        "instructions": 400,
        "cycles": 800,
        "cache_references": None,
        "cache_misses": 7,
    }
    assert counters.reasons == {"cache_references": "other programs' counters left no room in the hardware"}


def test_a_counter_that_counts_nothing_is_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(perf, "_perf_event_open", lambda pid, kind, config, flags: config)
    monkeypatch.setattr(perf.os, "read", lambda descriptor, size: perf.struct.pack("=QQQ", 0, 100, 100))
    counters = Counters([1])
    totals = counters.read()
    assert set(totals.values()) == {None}
    assert all("stayed at zero" in counters.reasons[name] for name in totals)


def test_without_the_right_to_count_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    def user_only(pid: int, kind: int, config: int, flags: int) -> int:
        if not flags & (1 << 5):
            raise OSError(errno.EACCES, "Permission denied")
        return config

    monkeypatch.setattr(perf, "_perf_event_open", user_only)
    counters = Counters([1])
    assert (counters.reasons, counters.kernel) == ({}, False)


@pytest.mark.parametrize(
    ("code", "paranoid", "words"),
    [
        (errno.ENOENT, 2, "a virtual machine hides them"),
        (errno.EACCES, 4, "perf_event_paranoid is 4); to allow them: sudo sysctl"),
        (errno.EPERM, 2, "seccomp"),
        (errno.ENOSYS, 2, "only Linux has"),
        (errno.EMFILE, 2, "cannot be opened: Too many open files"),
    ],
)
def test_why_there_are_no_counters(
    monkeypatch: pytest.MonkeyPatch, code: int, paranoid: int, words: str
) -> None:
    monkeypatch.setattr(perf, "_paranoid", lambda: paranoid)
    assert words in why_not(OSError(code, os.strerror(code)))


# --- readings over time ---


def test_a_track_between_two_moments() -> None:
    track = Track()
    for tenth in range(40):  # 0.0 … 3.9 s
        track.add(tenth * SECOND // 10, float(tenth))
    track.add(5 * SECOND, None)
    assert (track.count(), track.mean(), track.lowest(), track.highest()) == (40, 19.5, 0.0, 39.0)
    later = Span(2 * SECOND)
    assert (track.count(later), track.mean(later)) == (20, 29.5)
    half = Span(SECOND, 3 * SECOND // 2)
    assert (track.lowest(half), track.highest(half), track.count(half)) == (10.0, 14.0, 5)
    assert track.share_above(9.5) == 0.75
    assert (track.mean(Span(4 * SECOND)), track.share_above(0, Span(4 * SECOND))) == (None, None)


def test_a_long_track_is_coarser_and_loses_no_reading() -> None:
    track = Track(kept=16)
    for tenth in range(1000):
        track.add(tenth * SECOND // 10, float(tenth))
    assert len(track._slots) <= 16
    assert (track.count(), track.mean(), track.lowest(), track.highest()) == (1000, 499.5, 0.0, 999.0)
    late = Span(50 * SECOND, 90 * SECOND)
    lowest, highest = track.lowest(late), track.highest(late)
    assert lowest is not None
    assert highest is not None
    assert 500 <= lowest <= 600, "nothing of before it, and little of it is lost"
    assert 800 <= highest < 900


def test_a_meter_between_its_readings() -> None:
    meter = Meter()
    assert (meter.last, meter.at(0)) == (None, None)
    for tenth in range(31):
        meter.add(tenth * SECOND // 10, tenth * 2.0)
    assert meter.last == 60.0
    assert meter.at(3 * SECOND // 2) == pytest.approx(30.0)
    assert meter.at(0) == 0.0
    assert meter.at(4 * SECOND) is None
    assert len(meter._times) < 6, "one reading a second is kept"


# --- the outcome's figures ---


def test_the_larger_account_of_context_switches_counts() -> None:
    usage: Any = SimpleNamespace(ru_nvcsw=100, ru_nivcsw=10, ru_maxrss=0)
    waited_for = figures_of(watched_worker(), usage=usage)["cpu"]
    assert waited_for["context_switches"] == 110
    assert waited_for["context_switches_involuntary"] == 10
    stray = figures_of(watched_worker(tasks=TaskUsage(0, 5000, 20)), usage=usage)["cpu"]
    assert (stray["context_switches_voluntary"], stray["context_switches_involuntary"]) == (4980, 20)


def test_counters_and_their_ratio() -> None:
    counted = Counted(
        {"instructions": 300, "cycles": 200, "cache_misses": None}, {"cache_misses": "none"}, False
    )
    figures = figures_of(watched_worker(), counted=counted)["cpu"]
    assert (figures["instructions_per_cycle"], figures["kernel_counted"]) == (1.5, False)
    assert figures["reasons"]["cache_misses"] == "none"
    halved = Counted({"instructions": None, "cycles": 200}, {"instructions": "no room"})
    assert (
        figures_of(watched_worker(), counted=halved)["cpu"]["reasons"]["instructions_per_cycle"] == "no room"
    )


def test_every_missing_figure_has_a_reason() -> None:
    empty = watched_worker(tasks=TaskUsage(), peak_threads=0, tree=SimpleNamespace(reasons={}))
    for block in figures_of(empty).values():
        assert {name for name, value in block.items() if value is None} == set(block["reasons"])
        assert all(block["reasons"].values())


def test_oversubscription_is_half_a_thread_too_many_in_a_tenth_of_the_time() -> None:
    watched = watched_worker()
    for second in range(20):
        watched.tracks["threads_competing"].add(second * SECOND, 4.0 if second in (10, 11) else 1.4)
    crowded = figures_of(watched)["cpu"]
    assert crowded["oversubscribed_share"] == 0.1
    warning = oversubscription_warning(crowded, 1)
    assert warning is not None
    assert warning.startswith(
        "oversubscribed: 1.7 threads wanted to run on 1 core on average, too many in 10%"
    )
    assert oversubscription_warning(figures_of(watched, cores=4)["cpu"], 4) is None
    later = Span(11 * SECOND, 20 * SECOND)
    assert oversubscription_warning(figures_of(watched, later)["cpu"], 1) is None


def test_machine_wide_means_stand_beside_the_idle_machine() -> None:
    watched = watched_worker()
    watched.tracks["machine_cpu_percent"].add(SECOND, 60.0)
    watched.tracks["machine_memory_percent"].add(SECOND, 30.0)
    block = figures_of(watched, idle=Idle(1.5, None, 22.0))["machine"]
    assert block == {
        "cpu_percent": 60.0,
        "memory_percent": 30.0,
        "idle_cpu_percent": 1.5,
        "idle_memory_percent": 22.0,
        "reasons": {},
    }


def test_readings_of_the_start_and_of_the_end_are_not_of_the_training() -> None:
    """A reading of the CPU speaks of the second before it."""
    watched = watched_worker()
    for second in range(10):
        watched.tracks["machine_cpu_percent"].add(second * SECOND, 90.0 if 4 <= second <= 8 else 5.0)
    assert (
        figures_of(watched, trained(3 * SECOND, 5 * SECOND + SECOND // 2))["machine"]["cpu_percent"] == 90.0
    )
    assert figures_of(watched, training_span(None))["machine"]["cpu_percent"] == 47.5
