from __future__ import annotations

import json
import os
import socket
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from rldyno.machine import facts as machine
from rldyno.machine.facts import (
    CpuTicks,
    calibrate,
    cgroup_cores,
    cpu_ticks,
    machine_facts,
    steal_percent,
    usable_memory,
)
from rldyno.records.machine_facts import MachineFacts


def test_facts_are_json_and_do_not_name_the_host() -> None:
    text = json.dumps(machine_facts().to_json())
    facts = json.loads(text)
    assert MachineFacts.from_json(facts).to_json() == facts
    assert facts["memory_total_bytes"] >= facts["memory_available_bytes"] > 0
    assert 1 <= facts["cores_usable"] <= os.cpu_count()
    assert facts["cpu"]
    assert bool(facts["gpus"]) == (facts["gpus_reason"] is None)
    for name in ("cpu_energy_reason", "counters_reason"):
        assert facts[name] is None or "counter" in facts[name]
    assert f'"{socket.gethostname()}"' not in text


def test_machines_differ_by_name_and_by_hardware(monkeypatch: pytest.MonkeyPatch) -> None:
    here = machine.host_sha256()
    assert machine.host_sha256() == here
    with monkeypatch.context() as patch:
        patch.setattr(socket, "gethostname", lambda: "another")
        assert machine.host_sha256() != here
    monkeypatch.setattr(machine, "cpu_model", lambda: "another")
    assert machine.host_sha256() != here


@pytest.fixture
def cgroup(tmp_path: Path) -> Path:
    (tmp_path / "root" / "jobs" / "mine").mkdir(parents=True)
    return tmp_path


def test_cgroup_v2_takes_the_tightest_quota_on_the_way_up(cgroup: Path) -> None:
    (cgroup / "self").write_text("0::/jobs/mine\n")
    (cgroup / "root/jobs/cpu.max").write_text("150000 100000\n")
    (cgroup / "root/jobs/mine/cpu.max").write_text("max 100000\n")
    assert cgroup_cores(cgroup / "root", cgroup / "self") == 1.5


def test_cgroup_v1(cgroup: Path) -> None:
    (cgroup / "self").write_text("3:memory:/jobs\n2:cpu,cpuacct:/jobs\n")
    group = cgroup / "root" / "cpu" / "jobs"
    group.mkdir(parents=True)
    (group / "cpu.cfs_quota_us").write_text("-1\n")
    (group / "cpu.cfs_period_us").write_text("100000\n")
    assert cgroup_cores(cgroup / "root", cgroup / "self") is None
    (group / "cpu.cfs_quota_us").write_text("250000\n")
    assert cgroup_cores(cgroup / "root", cgroup / "self") == 2.5


def test_no_cgroup_is_no_limit(tmp_path: Path) -> None:
    assert cgroup_cores(tmp_path, tmp_path / "absent") is None


@pytest.mark.parametrize(
    ("own", "group", "file"),
    [("0::/jobs/mine", "jobs", "memory.max"), ("4:memory:/jobs", "memory/jobs", "memory.limit_in_bytes")],
)
def test_memory_is_cut_by_the_limit_of_a_container(cgroup: Path, own: str, group: str, file: str) -> None:
    (cgroup / "self").write_text(f"{own}\n")
    total = psutil.virtual_memory().total
    assert usable_memory(cgroup / "root", cgroup / "self") == total
    (cgroup / "root" / group).mkdir(parents=True, exist_ok=True)
    for limit, usable in (("max", total), (str(2**63 - 4096), total), (str(2**30), 2**30)):
        (cgroup / "root" / group / file).write_text(f"{limit}\n")
        assert usable_memory(cgroup / "root", cgroup / "self") == usable


@pytest.mark.parametrize(("quota", "cores"), [(None, 4), (2.5, 2), (0.5, 1), (16.0, 4)])
def test_usable_cores(monkeypatch: pytest.MonkeyPatch, quota: float | None, cores: int) -> None:
    monkeypatch.setattr(machine, "affinity", lambda: [0, 1, 2, 3])
    monkeypatch.setattr(machine, "cgroup_cores", lambda: quota)
    assert machine.usable_cores() == cores


def test_calibration_counts_what_disturbs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels of 10 ms with every fifth at 20 ms, on a fake clock: median 10 ms, spread (20 − 10) / 10."""
    now = [0]
    calls = [0]

    def kernel() -> float:
        calls[0] += 1
        now[0] += 20_000_000 if calls[0] % 5 == 0 else 10_000_000
        return 0.0

    monkeypatch.setattr(machine, "_kernel", kernel)
    monkeypatch.setattr(time, "perf_counter_ns", lambda: now[0])
    median_ns, spread = calibrate(repeats=100, limit_s=1000)
    assert median_ns == 10_000_000
    assert spread == pytest.approx(1.0)


def test_calibration_keeps_to_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0]
    monkeypatch.setattr(machine, "_kernel", lambda: now.__setitem__(0, now[0] + 50_000_000))
    monkeypatch.setattr(time, "perf_counter_ns", lambda: now[0])
    calibrate(repeats=1000, limit_s=0.1)
    assert now[0] == (3 + 5) * 50_000_000


def test_calibration_before_a_trial_takes_about_a_tenth_of_a_second() -> None:
    start = time.process_time()  # of this process alone: others may take the CPU meanwhile
    calibration = calibrate()
    assert time.process_time() - start < 0.5
    assert calibration.median_ns > 0
    assert calibration.spread >= 0


def test_steal_is_a_share_of_all_cpu_time(tmp_path: Path) -> None:
    stat = tmp_path / "stat"
    stat.write_text("cpu  100 0 50 800 0 0 0 50 7 7\ncpu0 1 2 3\n")
    before = cpu_ticks(stat)
    assert before == CpuTicks(steal=50, total=1000)
    assert steal_percent(before, CpuTicks(steal=60, total=1100)) == pytest.approx(10.0)


def test_steal_is_not_measured_where_it_is_not_counted(tmp_path: Path) -> None:
    assert cpu_ticks(tmp_path / "absent") is None
    assert steal_percent(None, CpuTicks(1, 2)) is None
    assert steal_percent(CpuTicks(1, 2), CpuTicks(1, 2)) is None


class Gpus:
    """As much of NVML as the facts of a GPU need."""

    class NVMLError(Exception):
        pass

    NVML_CLOCK_SM, NVML_CLOCK_MEM = 1, 2

    def __getattr__(self, name: str) -> Any:
        answers = {
            "nvmlDeviceGetHandleByIndex": 7,
            "nvmlDeviceGetName": "Fake 9000",
            "nvmlDeviceGetMemoryInfo": SimpleNamespace(total=2**30),
            "nvmlDeviceGetCudaComputeCapability": (9, 0),
            "nvmlDeviceGetMaxClockInfo": 1980,
            "nvmlSystemGetDriverVersion": "580.1",
            "nvmlSystemGetCudaDriverVersion": 12080,
        }

        def call(*_: Any) -> Any:
            if name not in answers:
                raise self.NVMLError("Not Supported")
            return answers[name]

        return call


def test_facts_of_a_gpu_that_does_not_report_everything() -> None:
    facts = machine._gpu(Gpus(), 0)
    assert facts.name == "Fake 9000"
    assert (facts.compute_capability, facts.cuda_driver) == ("9.0", "12.8")
    assert facts.power_limit_w is None
    assert facts.reasons == {"power_limit_w": "NVML: Not Supported"}
