"""GPUs through a made-up NVML: one, two, hidden processes, calls not supported, a driver that dies."""

from __future__ import annotations

from typing import Any

import pytest

from fake_nvml import GIB, FakeGpu, FakeNvml
from probe_fakes import energy_figures
from rldyno.probe import nvml
from rldyno.probe.gpus import GpuReader, gpu_metrics, open_gpus
from rldyno.probe.hardware import Hardware
from rldyno.probe.nvml import HARMLESS, throttle_words, visible_devices
from rldyno.probe.readings import training_span
from rldyno.probe.summary import gpu_figures, gpu_warnings
from rldyno.probe.track import EVER, Span

SECOND = 1_000_000_000


class NoCpuCounter:
    def __init__(self) -> None:
        self.reasons = {"cpu_energy_joules": "no RAPL"}

    def read(self, *_: Any) -> dict[str, Any]:
        return {}

    def close(self) -> None:
        pass


class CpuCounter(NoCpuCounter):
    """A tenth of a joule every millisecond."""

    def __init__(self) -> None:
        self.reasons: dict[str, str] = {}

    def read(self, time_ns: int, pids: Any, slow: bool) -> dict[str, Any]:
        return {"cpu_energy_joules": time_ns / 1e7} if slow else {}


def opened(nvml: FakeNvml, count: int = 1, **variables: str) -> GpuReader:
    reader, reason = open_gpus(variables, count, lambda: (nvml, None))
    assert reader is not None, reason
    return reader


def test_one_gpu() -> None:
    gpu = FakeGpu()
    reader = opened(FakeNvml(gpu))
    gpu.energy_mj += 12_500
    gpu.processes = {41: 2 * GIB, 42: GIB, 99: 5 * GIB}
    row = reader.read(SECOND, [41, 42], slow=True)
    assert row == {
        "gpu_percent": 50,
        "gpu_power_w": 100.0,
        "gpu_memory_bytes": 3 * GIB,
        "gpu_memory_used_bytes": 3 * GIB,
        "gpu_memory_reserved_bytes": GIB // 2,
        "gpu_sm_clock_mhz": 1980,
        "gpu_memory_clock_mhz": 2619,
        "gpu_throttle": 0,
        "gpu_energy_joules": 12.5,
    }
    assert reader.memory_source == "processes"


def test_the_dear_calls_are_made_once_a_second() -> None:
    reader = opened(FakeNvml(FakeGpu()))
    reader._fast_interval_ns = 0
    row = reader.read(SECOND, [1], slow=False)
    assert row["gpu_power_w"] == 100.0
    assert row["gpu_sm_clock_mhz"] is None
    assert "gpu_energy_joules" not in row


def test_a_dear_driver_is_asked_less_often() -> None:
    reader = opened(FakeNvml(FakeGpu()))
    reader._fast_interval_ns = SECOND // 5
    reader.read(SECOND, [1], slow=True)
    assert reader.read(SECOND + SECOND // 20, [1], slow=False) == {}
    assert reader.read(SECOND + SECOND // 5, [1], slow=False)["gpu_percent"] == 50


def test_two_gpus_make_one_figure_each() -> None:
    one, two = FakeGpu(0), FakeGpu(1)
    two.percent, two.power_mw, two.clocks, two.throttle = 100, 300_000, {"sm": 1200, "mem": 2000}, 0x4
    one.throttle = 0x20
    reader = opened(FakeNvml(one, two), count=2)
    one.energy_mj += 1000
    two.energy_mj += 3000
    one.processes, two.processes = {7: GIB}, {7: 3 * GIB}
    row = reader.read(SECOND, [7], slow=True)
    assert (row["gpu_percent"], row["gpu_power_w"], row["gpu_sm_clock_mhz"]) == (75, 400.0, 1200)
    assert (row["gpu_memory_bytes"], row["gpu_memory_used_bytes"]) == (4 * GIB, 6 * GIB)
    assert (row["gpu_throttle"], row["gpu_energy_joules"]) == (0x24, 4.0)
    block = gpu_figures(Hardware(CpuCounter(), reader, None), EVER)
    assert block is not None
    assert [device["energy_joules"] for device in block["devices"]] == [1.0, 3.0]
    assert block["devices"][1]["throttle"] == {"power limit": 1.0}
    assert block["energy_joules"] == 4.0
    assert block["throttle"] == {"power limit": 1.0, "thermal limit (software)": 1.0}


def test_hidden_processes_fall_back_to_what_the_device_gained() -> None:
    gpu = FakeGpu()
    reader = opened(FakeNvml(gpu))
    gpu.processes = {4_000_000: 2 * GIB}  # the number of a process outside the container
    assert reader.read(0, [12], slow=True)["gpu_memory_bytes"] is None, "nothing was gained yet"
    gpu.used += 2 * GIB
    assert reader.read(SECOND, [12], slow=True)["gpu_memory_bytes"] == 2 * GIB
    assert reader.memory_source == "device"
    gpu.processes = {12: GIB}
    assert reader.read(2 * SECOND, [12], slow=True)["gpu_memory_bytes"] == GIB
    assert (reader.memory_source, reader.tracks["gpu_memory_bytes"].highest()) == ("processes", GIB)


def test_a_process_of_unknown_size_is_no_figure() -> None:
    gpu = FakeGpu()
    reader = opened(FakeNvml(gpu))
    gpu.processes, gpu.used = {12: None}, gpu.used + GIB
    assert reader.read(SECOND, [12], slow=True)["gpu_memory_bytes"] == GIB
    assert reader.memory_source == "device"


CALLS = {
    "nvmlDeviceGetUtilizationRates": ({"gpu_percent"}, {"utilisation_percent"}),
    "nvmlDeviceGetPowerUsage": ({"gpu_power_w"}, {"power_mean_w", "power_peak_w"}),
    "nvmlDeviceGetCurrentClocksEventReasons": ({"gpu_throttle"}, {"throttle"}),
    "nvmlDeviceGetMemoryInfo": (
        {"gpu_memory_bytes", "gpu_memory_used_bytes", "gpu_memory_reserved_bytes"},
        {"memory_used_peak_bytes", "memory_reserved_bytes", "memory_peak_bytes", "memory_source"},
    ),
}


@pytest.mark.parametrize("call", CALLS)
def test_what_is_not_supported_is_empty_with_its_own_reason(call: str) -> None:
    gpu = FakeGpu()
    reader = opened(FakeNvml(gpu, broken={call: "Not Supported"}))
    gpu.used, gpu.energy_mj = gpu.used + GIB, gpu.energy_mj + 1000
    row = reader.read(SECOND, [1], slow=True)
    block = gpu_figures(Hardware(CpuCounter(), reader, None), EVER)
    assert block is not None
    columns, figures = CALLS[call]
    assert {name for name, value in row.items() if value is None} == columns
    assert {name for name, value in block.items() if value is None} == set(block["reasons"]) == figures
    assert set(block["reasons"].values()) == {"NVML: Not Supported"}


def test_an_older_driver_keeps_no_reserved_memory_apart() -> None:
    reader = opened(FakeNvml(FakeGpu(), broken={"second version": "yes"}))
    row = reader.read(SECOND, [1], slow=True)
    assert (row["gpu_memory_used_bytes"], row["gpu_memory_reserved_bytes"]) == (3 * GIB, None)
    block = gpu_figures(Hardware(CpuCounter(), reader, None), EVER)
    assert block is not None
    assert block["reasons"]["memory_reserved_bytes"] == "NVML: Function Not Found"


def test_a_driver_that_lacks_newer_calls() -> None:
    gpu = FakeGpu()
    gpu.throttle = 0x4
    reader = opened(FakeNvml(gpu, broken={"new names": "yes"}))
    gpu.used += GIB
    row = reader.read(SECOND, [1], slow=True)
    assert (row["gpu_throttle"], row["gpu_memory_bytes"], reader.memory_source) == (0x4, GIB, "device")
    assert reader.devices[0].device.reasons["processes"] == "NVML: use a versioned function"


def test_the_real_module_has_every_name_that_is_used() -> None:
    pynvml = pytest.importorskip("pynvml")
    used = {name for name in vars(FakeNvml) if name.startswith(("nvml", "NVML"))}
    assert {name for name in used if not hasattr(pynvml, name)} == set()
    assert issubclass(pynvml.NVMLError_FunctionNotFound, pynvml.NVMLError)


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
    assert reader.memory_source == "device"
    two.processes = {}
    assert reader.read(2 * SECOND, [7], slow=True)["gpu_memory_bytes"] == GIB, "it may use one of them only"


def test_energy_up_to_the_threshold_and_to_the_end() -> None:
    gpu = FakeGpu()
    hardware = Hardware(CpuCounter(), opened(FakeNvml(gpu)), None)
    for second in range(5):
        hardware.read(second * SECOND, [1], slow=True)
        gpu.energy_mj += 10_000
    hardware.finish(5 * SECOND)
    reached = {"threshold": {"reached": True, "time_ns": 5 * SECOND // 2}}
    energy = energy_figures(hardware, reached)
    assert energy == {
        "cpu_joules": 500.0,
        "gpu_joules": 50.0,
        "total_joules": 550.0,
        "to_threshold_joules": pytest.approx(275.0),
        "reasons": {},
    }
    missed = energy_figures(hardware, {"threshold": {"reached": False}})
    assert missed["reasons"] == {"to_threshold_joules": "the threshold was not reached"}


def test_a_part_that_cannot_be_read_leaves_the_total_unknown() -> None:
    gpu = FakeGpu()
    hardware = Hardware(NoCpuCounter(), opened(FakeNvml(gpu)), None)
    gpu.energy_mj += 2000
    assert hardware.read(SECOND, [1], slow=True)["energy_joules"] is None
    energy = energy_figures(hardware, None)
    assert (energy["gpu_joules"], energy["total_joules"]) == (2.0, None)
    assert energy["reasons"]["total_joules"] == "no RAPL"


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        (None, [0, 1, 2]),
        ("2,0", [2, 0]),
        ("", []),
        ("-1", []),
        ("1,7,0", [1]),
        ("GPU-2a, 1", [2, 1]),
        ("GPU-", []),  # of all three, so of none
        ("MIG-1", [0]),
        ("MIG-2", []),
    ],
)
def test_visible_devices(chosen: str | None, expected: list[int]) -> None:
    nvml = FakeNvml(FakeGpu(0), FakeGpu(1), FakeGpu(2))
    variables = {} if chosen is None else {"CUDA_VISIBLE_DEVICES": chosen}
    assert [gpu.number for _, gpu in visible_devices(nvml, variables)] == expected


def test_no_reader_says_why() -> None:
    assert open_gpus({}, 1, lambda: (None, "NVML: Driver Not Loaded")) == (None, "NVML: Driver Not Loaded")
    nvml = FakeNvml(FakeGpu())
    reader, why = open_gpus({"CUDA_VISIBLE_DEVICES": "-1"}, 1, lambda: (nvml, None))
    assert (reader, why) == (None, "no GPU is visible (CUDA_VISIBLE_DEVICES='-1')")
    assert nvml.shut_down


def test_start_up_counts_neither_for_means_nor_for_clocks() -> None:
    gpu = FakeGpu()
    reader = opened(FakeNvml(gpu))
    gpu.percent, gpu.clocks["sm"], gpu.throttle = 0, 345, 0x1
    reader.read(SECOND // 2, [1], slow=True)
    gpu.percent, gpu.clocks["sm"], gpu.throttle = 90, 1900, 0x4 | 0x1
    reader.read(3 * SECOND, [1], slow=True)
    block = gpu_figures(Hardware(CpuCounter(), reader, None), Span(2 * SECOND))
    assert block is not None
    assert (block["utilisation_percent"], block["sm_clock_min_mhz"]) == (90.0, 1900)
    assert block["throttle"] == {"power limit": 1.0}, "being idle slows nothing down"


def test_utilisation_and_power_count_once_they_speak_of_the_training_alone() -> None:
    """Of a training from 1 to 2.5 s: NVML's figures are means over up to a second."""
    gpu = FakeGpu()
    reader = opened(FakeNvml(gpu))
    reader._fast_interval_ns = 0
    for sample in range(60):  # 3 s at 20 Hz
        gpu.percent = 80 if 40 <= sample < 50 else 3
        gpu.clocks["sm"] = 1500 if 20 <= sample < 50 else 300
        reader.read(sample * SECOND // 20, [1], slow=sample % 20 == 0)
    hardware = Hardware(CpuCounter(), reader, None)
    block = gpu_figures(hardware, training_span({"train_start_ns": SECOND, "train_ns": 3 * SECOND // 2}))
    assert block is not None
    assert (block["utilisation_percent"], block["power_mean_w"], block["sm_clock_min_mhz"]) == (80, 100, 1500)
    short = gpu_figures(hardware, training_span({"train_start_ns": SECOND + 1, "train_ns": SECOND // 2}))
    assert short is not None
    for name in ("utilisation_percent", "power_mean_w", "sm_clock_min_mhz"):
        assert short[name] is None, "nobody knows: it is not zero"
        assert "too short" in short["reasons"][name]


def test_throttle_words() -> None:
    assert throttle_words(0) == []
    assert throttle_words(0x44) == ["power limit", "thermal limit (hardware)"]
    assert throttle_words(0x1000) == ["unknown (0x1000)"]
    assert len(throttle_words(HARMLESS)) == 3


def test_the_self_check_shows_everything_and_why_not(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gpu = FakeGpu()
    gpu.throttle = 0x4
    broken = {"nvmlDeviceGetPowerUsage": "Not Supported", "second version": "yes"}
    monkeypatch.setattr(nvml, "start_nvml", lambda: (FakeNvml(gpu, broken=broken), None))
    nvml.main()
    shown = capsys.readouterr().out
    assert "GPU 0: Fake 9000" in shown
    for call in nvml.CALLS:
        assert f"  {call.name} " in shown
    assert "power_w            not readable: NVML: Not Supported" in shown
    assert "memory reserved    not readable: NVML: Function Not Found" in shown
    assert "0x4 = ['power limit']" in shown
    monkeypatch.setattr(nvml, "start_nvml", lambda: (None, "NVML: Driver Not Loaded"))
    nvml.main()
    assert capsys.readouterr().out == "no GPU can be read: NVML: Driver Not Loaded\n"
