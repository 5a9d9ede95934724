"""Known loads measured through `rldyno trial`.

Stated errors: CPU 5 % + 0.1 s, memory 5 MiB, context switches 10 % + 50, runnable threads 0.3.
"""

from __future__ import annotations

import csv
import json
import os
import time
from pathlib import Path

import pytest
from fakes import PATIENCE_S, make_trial, outcome_of, rldyno, start, wait_until, workers_in

from rldyno_rig import schema

pytestmark = pytest.mark.alone

MIB = 2**20


def samples_of(directory: Path) -> list[dict[str, str]]:
    with (directory / schema.SAMPLES_FILE).open(newline="") as stream:
        return list(csv.DictReader(stream))


def most(rows: list[dict[str, str]], column: str) -> int:
    return max(int(row[column]) for row in rows if row[column])


def test_cpu_burner(tmp_path: Path) -> None:
    directory = make_trial(tmp_path, "burns:1.5")
    assert rldyno("trial", directory).returncode == 0
    outcome, samples = outcome_of(directory), samples_of(directory)
    assert outcome["cpu_s"] == pytest.approx(1.5, rel=0.05, abs=0.1)
    last = samples[-1]
    sampled = (int(last["cpu_user_ns"]) + int(last["cpu_system_ns"])) / 1e9
    assert sampled == pytest.approx(outcome["cpu_s"], abs=0.1)
    assert float(last["time_ns"]) / 1e9 == pytest.approx(outcome["wall_s"], abs=0.2)
    totals = [int(row["cpu_user_ns"]) + int(row["cpu_system_ns"]) for row in samples]
    assert totals == sorted(totals)


def test_memory_holder(tmp_path: Path) -> None:
    small, large = tmp_path / "small", tmp_path / "large"
    for folder, size in ((small, 1), (large, 201)):
        folder.mkdir()
        assert rldyno("trial", make_trial(folder, f"holds:{size}")).returncode == 0
    few, many = outcome_of(small / "fake-trial"), outcome_of(large / "fake-trial")
    assert many["peak_rss_bytes"] - few["peak_rss_bytes"] == pytest.approx(200 * MIB, abs=5 * MIB)
    rows = samples_of(large / "fake-trial")
    assert max(int(row["rss_bytes"]) for row in rows) == pytest.approx(many["peak_rss_bytes"], abs=5 * MIB)
    assert int(rows[-1]["rss_bytes"]) < 100 * MIB, "freed memory is no longer counted"
    assert many["baseline_rss_bytes"] < 60 * MIB
    private = {folder: most(samples_of(folder / "fake-trial"), "uss_bytes") for folder in (small, large)}
    assert private[large] - private[small] == pytest.approx(200 * MIB, abs=5 * MIB)
    assert private[large] < many["peak_rss_bytes"], "libraries that others use too are not its own"


def test_memory_of_children(tmp_path: Path) -> None:
    small, large = tmp_path / "small", tmp_path / "large"
    for folder, size in ((small, 1), (large, 61)):
        folder.mkdir()
        assert rldyno("trial", make_trial(folder, f"shelters:{size}")).returncode == 0
    for column in ("rss_bytes", "uss_bytes"):
        few, many = (most(samples_of(folder / "fake-trial"), column) for folder in (small, large))
        assert many - few == pytest.approx(2 * 60 * MIB, abs=5 * MIB), column
    assert outcome_of(large / "fake-trial")["peak_rss_bytes"] == most(
        samples_of(large / "fake-trial"), "rss_bytes"
    )


def test_children_that_come_and_go_are_counted_once(tmp_path: Path) -> None:
    directory = make_trial(tmp_path, "relays:12")
    assert rldyno("trial", directory).returncode == 0
    truth = json.loads((directory / "used.json").read_text())
    assert truth >= 12 * 0.15
    totals = [int(row["cpu_user_ns"]) + int(row["cpu_system_ns"]) for row in samples_of(directory)]
    assert totals == sorted(totals)
    assert outcome_of(directory)["cpu_s"] == pytest.approx(truth, rel=0.05, abs=0.1)
    assert totals[-1] / 1e9 == pytest.approx(truth, rel=0.05, abs=0.2)


def test_children_are_counted(tmp_path: Path) -> None:
    directory = make_trial(tmp_path, "spawns:0.4")
    assert rldyno("trial", directory).returncode == 0
    rows = samples_of(directory)
    assert max(int(row["processes"]) for row in rows) == 3
    assert max(int(row["threads"]) for row in rows) == 3
    assert outcome_of(directory)["cpu_s"] == pytest.approx(0.8 + 0.1, abs=0.15)
    last = rows[-1]
    assert (int(last["cpu_user_ns"]) + int(last["cpu_system_ns"])) / 1e9 >= 0.75, (
        "ended children stay counted"
    )


def test_the_worker_keeps_to_its_cpu_and_the_probe_to_another(tmp_path: Path) -> None:
    directory = make_trial(tmp_path, "good:2")
    runner = start("trial", directory)
    wait_until((directory / schema.PROGRESS_FILE).exists)
    (worker,) = workers_in(directory)
    kept = {"worker": sorted(os.sched_getaffinity(worker)), "probe": sorted(os.sched_getaffinity(runner.pid))}
    said, _ = runner.communicate(timeout=PATIENCE_S)
    assert runner.returncode == 0
    assert said.startswith("fake-trial: done (steps) after ")
    affinity = outcome_of(directory)["affinity"]
    assert affinity["worker"] == kept["worker"]
    assert len(affinity["worker"]) == 1
    assert affinity["probe"] in (None, kept["probe"])
    assert affinity["probe"] != affinity["worker"]


def bare_look_cpu_s(looks: int, pause_s: float) -> float:
    """CPU time of one look that only wakes up and reads one file of the kernel, as any probe must."""
    descriptor = os.open("/proc/self/stat", os.O_RDONLY)
    try:
        before = time.thread_time()
        for _ in range(looks):
            time.sleep(pause_s)
            os.pread(descriptor, 1024, 0)
        return (time.thread_time() - before) / looks
    finally:
        os.close(descriptor)


def cost_of_watching(folder: Path) -> float:
    """CPU time of a sample, in bare looks of the same seconds."""
    directory = make_trial(folder, "good:4")
    runner = start("trial", directory)
    wait_until((directory / schema.SAMPLES_FILE).exists)
    bare_s = bare_look_cpu_s(60, 0.05)
    _, status, used = os.wait4(runner.pid, 0)
    assert status == 0
    outcome = outcome_of(directory)
    probe = outcome["probe"]
    # 20 a second; a probe that gets no CPU on a busy machine takes fewer.
    assert 10 * outcome["wall_s"] < probe["samples"] <= 20 * outcome["wall_s"] + 2
    assert probe["core_percent"] == pytest.approx(100 * probe["cpu_s"] / outcome["wall_s"])
    assert probe["samples"] * 20e-6 < probe["cpu_s"] < used.ru_utime + used.ru_stime
    return float(probe["cpu_s"] / probe["samples"] / bare_s)


def test_watching_costs_little_and_says_how_much(tmp_path: Path) -> None:
    # All that is read once a second, the rows and the first look at everything are in it. On a quiet machine
    # a bare look takes about 90 µs, one of the probe three to four times as long: 0.6 % of a core. Other load
    # only adds to it: the best of three counts.
    costs = (cost_of_watching(tmp_path / str(attempt)) for attempt in range(3))
    assert any(cost < 5 for cost in costs)


def test_a_share_of_a_core(tmp_path: Path) -> None:
    """Stated error: 5 percentage points. A busy machine lowers the share by making the slots longer."""
    share = 0.4
    directory = make_trial(tmp_path, f"shares:{share}")
    assert rldyno("trial", directory).returncode == 0
    outcome = outcome_of(directory)
    start = outcome["result"]["train_start_ns"]
    end = start + outcome["result"]["train_ns"]
    inside = [row for row in samples_of(directory) if start <= int(row["time_ns"]) <= end]
    first, last = inside[0], inside[-1]
    used = sum(int(last[name]) - int(first[name]) for name in ("cpu_user_ns", "cpu_system_ns"))
    truth = share * 60 * 0.05e9 / (end - start)
    assert used / (int(last["time_ns"]) - int(first["time_ns"])) == pytest.approx(truth, abs=0.05)


def test_context_switches(tmp_path: Path) -> None:
    """Each nap gives the CPU up once; whatever else makes the kernel switch comes on top."""
    naps = 1000
    directory = make_trial(tmp_path, f"naps:{naps}")
    assert rldyno("trial", directory).returncode == 0
    cpu = outcome_of(directory)["cpu"]
    assert cpu["context_switches_voluntary"] == pytest.approx(naps, rel=0.1, abs=50)
    total = cpu["context_switches_voluntary"] + cpu["context_switches_involuntary"]
    assert cpu["context_switches"] == total
    seen = [int(row["context_switches"]) for row in samples_of(directory) if row["context_switches"]]
    assert seen == sorted(seen)
    assert 0 < seen[-1] <= total


def test_more_threads_than_cores(tmp_path: Path) -> None:
    directory = make_trial(tmp_path, "crowds:4")
    assert rldyno("trial", directory).returncode == 0
    outcome = outcome_of(directory)
    cpu = outcome["cpu"]
    assert cpu["threads_peak"] == 5, "four and the one that waits for them"
    assert cpu["threads_busy_peak"] == 4
    assert cpu["threads_runnable_peak"] == pytest.approx(4.0, abs=0.3)
    (warning,) = outcome["warnings"]
    assert warning.startswith("oversubscribed: ")
    assert "threads wanted to run on 1 core" in warning
    start_ns = outcome["result"]["train_start_ns"]
    readings = [row for row in samples_of(directory) if row["wait_ns"] and int(row["time_ns"]) > start_ns]
    crowd = [row for row in readings if int(row["time_ns"]) < start_ns + 3.2e9]
    columns = ("wait_ns", "cpu_user_ns", "cpu_system_ns", "time_ns")
    waited, user, system, passed = (int(crowd[-1][name]) - int(crowd[0][name]) for name in columns)
    assert waited / passed == pytest.approx(4.0 - (user + system) / passed, abs=0.3), "who does not run waits"


def test_busy_children(tmp_path: Path) -> None:
    """Two children that burn on one core are two threads that want to run."""
    directory = make_trial(tmp_path, "spawns:1.2")
    assert rldyno("trial", directory).returncode == 0
    cpu = outcome_of(directory)["cpu"]
    assert cpu["threads_busy_peak"] == 2
    assert cpu["threads_runnable_peak"] == pytest.approx(2.0, abs=0.3)


def test_one_thread_on_one_core_is_no_crowd_and_every_gap_has_its_reason(tmp_path: Path) -> None:
    directory = make_trial(tmp_path, "burns:2.2")
    assert rldyno("trial", directory).returncode == 0
    outcome = outcome_of(directory)
    assert outcome["cpu"]["threads_runnable_mean"] == pytest.approx(1.0, abs=0.3)
    assert outcome["warnings"] == []
    used = 100 * outcome["cpu_s"] / outcome["wall_s"] / (os.cpu_count() or 1)
    assert used - 5 <= outcome["machine"]["cpu_percent"] <= 100, "others come on top of the worker"
    for name in ("memory", "cpu", "energy", "machine", "noise"):
        block = outcome[name]
        missing = {figure for figure, value in block.items() if value is None}
        assert missing == set(block["reasons"]), name
    assert outcome["gpu"] is None
    assert outcome["reasons"]["gpu"] == "the trial runs on the CPU"


def test_a_trial_on_a_gpu(tmp_path: Path) -> None:
    """A made-up GPU: 100 W, 512 MiB more than before the trial. Stated error of the energy: 2 % + 5 J."""
    directory = make_trial(tmp_path, "good:2.5", device="cuda")
    fake = Path(__file__).parents[1] / "workers" / "fake_nvml"
    assert rldyno("trial", directory, env={**os.environ, "PYTHONPATH": str(fake)}).returncode == 0
    outcome, rows = outcome_of(directory), samples_of(directory)
    gpu, energy = outcome["gpu"], outcome["energy"]
    assert energy["gpu_joules"] == pytest.approx(100 * outcome["wall_s"], rel=0.02, abs=5)
    assert (gpu["utilisation_percent"], gpu["power_mean_w"], gpu["sm_clock_min_mhz"]) == (40, 100, 1980)
    assert (gpu["memory_peak_bytes"], gpu["memory_source"]) == (512 * MIB, "device")
    assert (gpu["memory_used_peak_bytes"], gpu["memory_reserved_bytes"]) == (1536 * MIB, 256 * MIB)
    assert gpu["throttle"] == {"power limit": 1.0}
    assert [device["name"] for device in gpu["devices"]] == ["Fake 9000"]
    assert outcome["warnings"] == ["GPU 0 was slowed down in 100% of the training: power limit"]
    assert sum(row["gpu_power_w"] == "100" for row in rows) > 0.7 * len(rows)
    counted = [row for row in rows if row["gpu_energy_joules"]]
    first, last = (
        (int(row["time_ns"]) / 1e9, float(row["gpu_energy_joules"])) for row in counted[:: len(counted) - 1]
    )
    assert last[1] - first[1] == pytest.approx(100 * (last[0] - first[0]), abs=60)
