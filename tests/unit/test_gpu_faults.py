"""Energy of GPUs through a made-up NVML, and drivers that fail during a trial."""

from __future__ import annotations

import pytest

from fake_nvml import GIB, CpuCounter, FakeGpu, FakeNvml, NoCpuCounter, opened
from probe_fakes import energy_figures
from rldyno.probe.gpus import gpu_metrics
from rldyno.probe.hardware import Hardware
from rldyno.probe.summary import gpu_figures, gpu_warnings
from rldyno.probe.track import EVER
from rldyno_rig.result_file import WorkerResult

SECOND = 1_000_000_000


def test_without_a_counter_energy_is_the_integral_of_power() -> None:
    gpu = FakeGpu()
    reader = opened(FakeNvml(gpu, broken={"nvmlDeviceGetTotalEnergyConsumption": "Not Supported"}))
    reader.read(0, [1], slow=True)
    gpu.power_mw = 300_000
    reader.read(2 * SECOND, [1], slow=True)
    assert reader.joules() == pytest.approx((100 + 300) / 2 * 2)
    block = gpu_figures(Hardware(CpuCounter(), reader, None), EVER)
    assert block is not None
    assert block["energy_source"] == "power"


def test_a_driver_that_is_lost_in_mid_trial() -> None:
    gpu = FakeGpu()
    nvml = FakeNvml(gpu)
    hardware = Hardware(CpuCounter(), opened(nvml), None)
    gpu.energy_mj += 5000
    assert hardware.read(SECOND, [1], slow=True)["energy_joules"] == pytest.approx(105.0)
    nvml.broken = {"*": "GPU is lost"}
    for second in (2, 3, 4):
        row = hardware.read(second * SECOND, [1], slow=True)
        assert all(row[metric.name] is None for metric in gpu_metrics())
        assert row["energy_joules"] is None
    hardware.finish(5 * SECOND)
    hardware.close()
    block, energy = gpu_figures(hardware, EVER), energy_figures(hardware, None)
    assert block is not None
    assert block["utilisation_percent"] == 50.0, "what was read before counts"
    assert energy["gpu_joules"] is energy["total_joules"] is None
    assert energy["reasons"]["gpu_joules"] == "NVML: GPU is lost, 2.0 s into the trial"
    assert energy["cpu_joules"] == 500.0
    (warning,) = gpu_warnings(block, hardware)
    assert warning.startswith("GPU 0 no longer answered (NVML: GPU is lost, 2.0 s into the trial)")


def test_a_gpu_that_is_lost_in_the_last_moment() -> None:
    nvml = FakeNvml(FakeGpu())
    hardware = Hardware(CpuCounter(), opened(nvml), None)
    hardware.read(SECOND, [1], slow=True)
    assert gpu_warnings(gpu_figures(hardware, EVER), hardware) == []
    nvml.broken = {"*": "GPU is lost"}
    hardware.gpu._fast_interval_ns = 0
    hardware.read(3 * SECOND // 2, [1], slow=False)
    hardware.finish(8 * SECOND // 5)
    (warning,) = gpu_warnings(gpu_figures(hardware, EVER), hardware)
    assert warning.startswith("GPU 0 no longer answered (NVML: GPU is lost, 1.5 s into the trial)")


def test_a_driver_that_fails_once_loses_no_energy_and_its_reason_is_forgotten() -> None:
    gpu = FakeGpu()
    nvml = FakeNvml(gpu)
    hardware = Hardware(CpuCounter(), opened(nvml), None)
    nvml.broken = {"nvmlDeviceGetTotalEnergyConsumption": "Timeout"}
    assert hardware.read(SECOND, [1], slow=True)["gpu_energy_joules"] is None
    nvml.broken = {}
    gpu.energy_mj += 9000
    assert hardware.read(2 * SECOND, [1], slow=True)["gpu_energy_joules"] == 9.0
    assert energy_figures(hardware, None)["gpu_joules"] == 9.0
    nvml.broken = {"nvmlDeviceGetTotalEnergyConsumption": "Timeout"}
    hardware.finish(7 * SECOND)
    reasons = energy_figures(hardware, None)["reasons"]
    assert reasons["gpu_joules"] == "NVML: Timeout, 7.0 s into the trial"


def test_a_gpu_that_answers_something_is_not_lost() -> None:
    fast = ("nvmlDeviceGetUtilizationRates", "nvmlDeviceGetPowerUsage", "nvmlDeviceGetMemoryInfo")
    nvml = FakeNvml(FakeGpu())
    hardware = Hardware(CpuCounter(), opened(nvml), None)
    nvml.broken = dict.fromkeys(fast, "Timeout")
    hardware.read(SECOND, [1], slow=True)
    assert gpu_warnings(gpu_figures(hardware, EVER), hardware) == []


def test_a_card_that_supports_nothing_is_not_lost() -> None:
    calls = {name: "Not Supported" for name in vars(FakeNvml) if name.startswith("nvmlDeviceGet")}
    for name in ("Count", "HandleByIndex", "Name", "UUID"):
        del calls[f"nvmlDeviceGet{name}"]
    hardware = Hardware(CpuCounter(), opened(FakeNvml(FakeGpu(), broken=calls)), None)
    hardware.read(SECOND, [1], slow=True)
    hardware.finish(2 * SECOND)
    block = gpu_figures(hardware, EVER)
    assert block is not None
    assert {name for name, value in block.items() if value is None} == set(block["reasons"])
    assert set(block["reasons"].values()) == {"NVML: Not Supported"}
    assert gpu_warnings(block, hardware) == []


@pytest.mark.parametrize("counter", [100, 7_500_000])
def test_an_energy_counter_that_is_set_back(counter: int) -> None:
    gpu = FakeGpu()
    hardware = Hardware(CpuCounter(), opened(FakeNvml(gpu)), None)
    gpu.energy_mj = 8_000_000
    hardware.read(SECOND, [1], slow=True)
    gpu.energy_mj = counter
    assert hardware.read(2 * SECOND, [1], slow=True)["gpu_energy_joules"] is None
    gpu.energy_mj = 9_000_000
    assert hardware.read(3 * SECOND, [1], slow=True)["gpu_energy_joules"] is None
    energy = energy_figures(hardware, None)
    assert energy["gpu_joules"] is energy["total_joules"] is None
    assert "was set back, 2.0 s into the trial" in energy["reasons"]["gpu_joules"]


def test_an_energy_counter_that_stands_still() -> None:
    hardware = Hardware(CpuCounter(), opened(FakeNvml(FakeGpu())), None)
    hardware.finish(5 * SECOND)
    energy, block = energy_figures(hardware, None), gpu_figures(hardware, EVER)
    assert block is not None
    assert energy["gpu_joules"] is energy["total_joules"] is block["energy_joules"] is None
    assert block["devices"][0]["energy_joules"] is block["energy_source"] is None
    assert "did not move" in energy["reasons"]["gpu_joules"]


def test_a_part_of_the_processes_memory_is_not_the_whole() -> None:
    """One of two GPUs does not say what the trial holds: what both gained counts."""
    one, two = FakeGpu(0), FakeGpu(1)
    reader = opened(FakeNvml(one, two), count=2)
    one.processes, two.processes = {7: GIB}, {7: None}
    one.used, two.used = one.used + GIB, two.used + 3 * GIB
    assert reader.read(SECOND, [7], slow=True)["gpu_memory_bytes"] == 4 * GIB
    assert reader.memory.peaks == {"device": 4 * GIB}
    two.processes, two.used = {}, two.used - 3 * GIB
    assert reader.read(2 * SECOND, [7], slow=True)["gpu_memory_bytes"] == GIB, "it may use one of them only"


def test_energy_up_to_the_threshold_and_to_the_end() -> None:
    gpu = FakeGpu()
    hardware = Hardware(CpuCounter(), opened(FakeNvml(gpu)), None)
    for second in range(5):
        hardware.read(second * SECOND, [1], slow=True)
        gpu.energy_mj += 10_000
    hardware.finish(5 * SECOND)
    reached = WorkerResult("return", threshold={"reached": True, "time_ns": 5 * SECOND // 2})
    energy = energy_figures(hardware, reached)
    assert energy == {
        "cpu_joules": 500.0,
        "gpu_joules": 50.0,
        "total_joules": 550.0,
        "to_threshold_joules": pytest.approx(275.0),
        "reasons": {},
    }
    missed = energy_figures(hardware, WorkerResult("steps", threshold={"reached": False}))
    assert missed["reasons"] == {"to_threshold_joules": "the threshold was not reached"}


def test_a_part_that_cannot_be_read_leaves_the_total_unknown() -> None:
    gpu = FakeGpu()
    hardware = Hardware(NoCpuCounter(), opened(FakeNvml(gpu)), None)
    gpu.energy_mj += 2000
    assert hardware.read(SECOND, [1], slow=True)["energy_joules"] is None
    energy = energy_figures(hardware, None)
    assert (energy["gpu_joules"], energy["total_joules"]) == (2.0, None)
    assert energy["reasons"]["total_joules"] == "no RAPL"
