"""GPUs through a made-up NVML: one, two, hidden processes, calls that are not supported."""

from __future__ import annotations

import pytest

from fake_nvml import GIB, CpuCounter, FakeGpu, FakeNvml, opened
from probe_fakes import trained
from rldyno.probe import nvml
from rldyno.probe.__main__ import main
from rldyno.probe.gpus import open_gpus
from rldyno.probe.hardware import Hardware
from rldyno.probe.nvml import HARMLESS, throttle_words, visible_devices
from rldyno.probe.summary import gpu_figures
from rldyno.probe.track import EVER, Span
from rldyno_rig.result_file import WorkerResult

SECOND = 1_000_000_000


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
    assert reader.memory.peaks == {"processes": 3 * GIB}


def test_the_expensive_calls_are_made_once_a_second() -> None:
    reader = opened(FakeNvml(FakeGpu()))
    reader._fast_interval_ns = 0
    row = reader.read(SECOND, [1], slow=False)
    assert row["gpu_power_w"] == 100.0
    assert row["gpu_sm_clock_mhz"] is None
    assert "gpu_energy_joules" not in row


def test_a_slow_driver_is_called_less_often() -> None:
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
    assert reader.memory.peaks == {"device": 2 * GIB}


def test_the_peak_between_two_lists_of_processes_counts() -> None:
    """A short trial: NVML's list, once a second, has seen its first megabytes only."""
    gpu = FakeGpu()
    reader = opened(FakeNvml(gpu))
    reader._fast_interval_ns = 0
    gpu.processes, gpu.used = {12: 15 * 2**20}, gpu.used + 22 * 2**20
    reader.read(SECOND, [12], slow=True)
    gpu.used += GIB
    assert reader.read(SECOND + SECOND // 20, [12], slow=False)["gpu_memory_bytes"] == GIB + 22 * 2**20
    block = gpu_figures(Hardware(CpuCounter(), reader, None), EVER)
    assert block is not None
    assert (block["memory_peak_bytes"], block["memory_source"]) == (GIB + 22 * 2**20, "device")
    assert block["memory_processes_peak_bytes"] == 15 * 2**20


def test_what_the_framework_reports_counts_where_it_is_more() -> None:
    gpu = FakeGpu()
    reader = opened(FakeNvml(gpu))
    gpu.processes = {12: 15 * 2**20}
    reader.read(SECOND, [12], slow=True)
    said = WorkerResult("steps", device_memory={"used_peak_bytes": GIB, "reserved_bytes": 2 * GIB})
    block = gpu_figures(Hardware(CpuCounter(), reader, None), EVER, said)
    assert block is not None
    assert (block["memory_peak_bytes"], block["memory_source"]) == (2 * GIB, "framework")
    without = gpu_figures(Hardware(CpuCounter(), reader, None), EVER, WorkerResult("steps"))
    assert without is not None
    assert (without["memory_peak_bytes"], without["memory_source"]) == (15 * 2**20, "processes")


def test_memory_of_a_process_that_comes_later_is_not_the_trials() -> None:
    gpu = FakeGpu()
    gpu.processes = {5: GIB}  # was there before
    reader = opened(FakeNvml(gpu))
    gpu.processes, gpu.used = {5: GIB, 12: GIB}, gpu.used + GIB
    assert reader.read(SECOND, [12], slow=True)["gpu_memory_bytes"] == GIB
    assert reader.memory.peaks == {"processes": GIB, "device": GIB}
    gpu.processes, gpu.used = {5: GIB, 12: GIB, 99: 5 * GIB}, gpu.used + 5 * GIB
    assert reader.read(2 * SECOND, [12], slow=True)["gpu_memory_bytes"] == GIB
    block = gpu_figures(Hardware(CpuCounter(), reader, None), EVER)
    assert block is not None
    assert (block["memory_peak_bytes"], block["memory_gained_peak_bytes"]) == (GIB, None)
    assert "another process" in block["reasons"]["memory_gained_peak_bytes"]


def test_a_process_of_unknown_size_is_no_figure() -> None:
    gpu = FakeGpu()
    reader = opened(FakeNvml(gpu))
    gpu.processes, gpu.used = {12: None}, gpu.used + GIB
    assert reader.read(SECOND, [12], slow=True)["gpu_memory_bytes"] == GIB
    assert reader.memory.peaks == {"device": GIB}


CALLS = {
    "nvmlDeviceGetUtilizationRates": ({"gpu_percent"}, {"utilisation_percent"}),
    "nvmlDeviceGetPowerUsage": ({"gpu_power_w"}, {"power_mean_w", "power_peak_w"}),
    "nvmlDeviceGetCurrentClocksEventReasons": ({"gpu_throttle"}, {"throttle"}),
    "nvmlDeviceGetMemoryInfo": (
        {"gpu_memory_used_bytes", "gpu_memory_reserved_bytes"},
        {"memory_used_peak_bytes", "memory_reserved_bytes", "memory_gained_peak_bytes"},
    ),
}


@pytest.mark.parametrize("call", CALLS)
def test_what_is_not_supported_is_empty_with_its_own_reason(call: str) -> None:
    gpu = FakeGpu()
    reader = opened(FakeNvml(gpu, broken={call: "Not Supported"}))
    gpu.used, gpu.energy_mj, gpu.processes = gpu.used + GIB, gpu.energy_mj + 1000, {1: GIB}
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
    assert (row["gpu_throttle"], row["gpu_memory_bytes"], reader.memory.peaks) == (0x4, GIB, {"device": GIB})
    assert reader.devices[0].device.reasons["processes"] == "NVML: use a versioned function"


def test_the_real_module_has_every_name_that_is_used() -> None:
    pynvml = pytest.importorskip("pynvml")
    used = {name for name in vars(FakeNvml) if name.startswith(("nvml", "NVML"))}
    assert {name for name in used if not hasattr(pynvml, name)} == set()
    assert issubclass(pynvml.NVMLError_FunctionNotFound, pynvml.NVMLError)


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


def test_without_a_reader_there_is_a_reason() -> None:
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


def test_utilisation_and_power_count_once_they_describe_the_training_alone() -> None:
    """Of a training from 1 to 2.5 s: NVML's figures are means over up to a second."""
    gpu = FakeGpu()
    reader = opened(FakeNvml(gpu))
    reader._fast_interval_ns = 0
    for sample in range(60):  # 3 s at 20 Hz
        gpu.percent = 80 if 40 <= sample < 50 else 3
        gpu.clocks["sm"] = 1500 if 20 <= sample < 50 else 300
        reader.read(sample * SECOND // 20, [1], slow=sample % 20 == 0)
    hardware = Hardware(CpuCounter(), reader, None)
    block = gpu_figures(hardware, trained(SECOND, 3 * SECOND // 2))
    assert block is not None
    assert (block["utilisation_percent"], block["power_mean_w"], block["sm_clock_min_mhz"]) == (80, 100, 1500)
    short = gpu_figures(hardware, trained(SECOND + 1, SECOND // 2))
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
    main()
    shown = capsys.readouterr().out
    assert "GPU 0: Fake 9000" in shown
    for call in nvml.CALLS:
        assert f"  {call.name} " in shown
    assert "power_w            not readable: NVML: Not Supported" in shown
    assert "memory reserved    not readable: NVML: Function Not Found" in shown
    assert "0x4 = ['power limit']" in shown
    monkeypatch.setattr(nvml, "start_nvml", lambda: (None, "NVML: Driver Not Loaded"))
    main()
    assert capsys.readouterr().out == "no GPU can be read: NVML: Driver Not Loaded\n"
