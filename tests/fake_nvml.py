"""GPUs and the part of pynvml that is used, made up."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from rldyno.probe.gpus import GpuReader, open_gpus

GIB = 2**30


class NvmlFault(Exception):
    pass


class NotFound(NvmlFault):
    pass


class Mismatch(Exception):
    pass


class FakeGpu:
    def __init__(self, number: int = 0) -> None:
        self.number = number
        self.percent, self.power_mw, self.energy_mj = 50, 100_000, 7_000_000
        self.used, self.reserved = 3 * GIB, GIB // 2
        self.clocks = {"sm": 1980, "mem": 2619}
        self.throttle = 0
        self.processes: dict[int, int | None] = {}


class FakeNvml:
    """The part of pynvml that is used. `broken`: name of a call → what it says instead of answering."""

    NVMLError = NvmlFault
    NVMLError_FunctionNotFound = NotFound
    NVMLLibraryMismatchError = Mismatch
    NVML_CLOCK_SM, NVML_CLOCK_MEM = "sm", "mem"
    nvmlMemory_v2 = 2

    def __init__(self, *gpus: FakeGpu, broken: dict[str, str] | None = None) -> None:
        self.gpus = gpus
        self.broken = broken or {}
        self.shut_down = False

    def __getattribute__(self, name: str) -> Any:
        broken = object.__getattribute__(self, "broken") if name.startswith("nvmlDevice") else {}
        message = broken.get(name, broken.get("*") if "Get" in name else None)
        if message:
            return lambda *a, **k: fail(message)
        return object.__getattribute__(self, name)

    def nvmlShutdown(self) -> None:
        self.shut_down = True

    def nvmlSystemGetDriverVersion(self) -> str:
        return "999.1"

    def nvmlDeviceGetCount(self) -> int:
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> FakeGpu:
        return self.gpus[index]

    def nvmlDeviceGetHandleByUUID(self, uuid: bytes) -> FakeGpu:
        return self.gpus[0] if uuid == b"MIG-1" else fail("Not Found")

    def nvmlDeviceGetName(self, gpu: FakeGpu) -> str:
        return "Fake 9000"

    def nvmlDeviceGetUUID(self, gpu: FakeGpu) -> str:
        return f"GPU-{gpu.number}abc"

    def nvmlDeviceGetUtilizationRates(self, gpu: FakeGpu) -> Any:
        return SimpleNamespace(gpu=gpu.percent)

    def nvmlDeviceGetPowerUsage(self, gpu: FakeGpu) -> int:
        return gpu.power_mw

    def nvmlDeviceGetMemoryInfo(self, gpu: FakeGpu, version: int | None = None) -> Any:
        if version and "second version" in self.broken:
            fail("Function Not Found")
        return SimpleNamespace(used=gpu.used, reserved=gpu.reserved)

    def nvmlDeviceGetTotalEnergyConsumption(self, gpu: FakeGpu) -> int:
        return gpu.energy_mj

    def nvmlDeviceGetClockInfo(self, gpu: FakeGpu, clock: str) -> int:
        return gpu.clocks[clock]

    def nvmlDeviceGetCurrentClocksEventReasons(self, gpu: FakeGpu) -> int:
        if "new names" in self.broken:
            raise NotFound
        return gpu.throttle

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, gpu: FakeGpu) -> int:
        return gpu.throttle

    def nvmlDeviceGetComputeRunningProcesses(self, gpu: FakeGpu) -> list[Any]:
        if "new names" in self.broken:
            raise Mismatch("use a versioned function")
        return [SimpleNamespace(pid=pid, usedGpuMemory=held) for pid, held in gpu.processes.items()]


def fail(message: str) -> Any:
    raise NvmlFault(message)


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
