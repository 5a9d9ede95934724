"""One NVIDIA GPU through NVML, call by call: what a driver or a card does not support has its own reason."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple


class Call(NamedTuple):
    """A question to NVML about one GPU."""

    name: str
    ask: Callable[[Device], Any]
    every_sample: bool = False
    """Else once a second."""


PERCENT = Call("percent", lambda gpu: int(gpu.nvml.nvmlDeviceGetUtilizationRates(gpu.handle).gpu), True)
POWER = Call("power_w", lambda gpu: gpu.nvml.nvmlDeviceGetPowerUsage(gpu.handle) / 1e3, True)
MEMORY = Call("memory", lambda gpu: gpu.memory(), True)
"""(used, reserved for the driver) in bytes, of the whole device."""
ENERGY = Call("energy_mj", lambda gpu: int(gpu.nvml.nvmlDeviceGetTotalEnergyConsumption(gpu.handle)))
SM_CLOCK = Call("sm_clock_mhz", lambda gpu: gpu.clock_mhz(gpu.nvml.NVML_CLOCK_SM))
MEMORY_CLOCK = Call("memory_clock_mhz", lambda gpu: gpu.clock_mhz(gpu.nvml.NVML_CLOCK_MEM))
THROTTLE = Call("throttle", lambda gpu: gpu.throttle_mask())
PROCESSES = Call("processes", lambda gpu: gpu.processes())
"""pid → bytes, None where NVML does not show how much."""
CALLS = (PERCENT, POWER, MEMORY, ENERGY, SM_CLOCK, MEMORY_CLOCK, THROTTLE, PROCESSES)

# Bits of the clocks-event mask. The first three are not slow-downs: nothing to do, or clocks set by a person.
THROTTLE_WORDS = {
    0x001: "idle",
    0x002: "clocks set by the user",
    0x100: "display clocks",
    0x004: "power limit",
    0x008: "hardware slow-down",
    0x010: "sync boost",
    0x020: "thermal limit (software)",
    0x040: "thermal limit (hardware)",
    0x080: "power brake",
    0x200: "board limit",
    0x400: "reliability limit",
}
HARMLESS = 0x001 | 0x002 | 0x100

_LOST_AFTER = 3
"""Failures in a row after which a call, or the whole GPU, is given up."""


class Device:
    def __init__(self, nvml: Any, handle: Any, index: int, calls: Sequence[Call] = CALLS) -> None:
        self.nvml: Any = nvml
        self.handle: Any = handle
        self.index = index
        self.reasons: dict[str, str] = {}
        """Name of a call → why it does not answer."""
        self._failures: dict[str, int] = {}
        self._silence: list[str] = []
        """Errors of calls of any kind since the last one that was answered, the first few."""
        self._calls = {call.name: call.ask for call in calls}
        # pynvml's error for a driver that lacks a call is not an NVMLError.
        self._errors = (nvml.NVMLError, nvml.NVMLLibraryMismatchError)
        self._second_version = self._new_name = True
        self.name = self._text(lambda: nvml.nvmlDeviceGetName(handle))
        self.uuid = self._text(lambda: nvml.nvmlDeviceGetUUID(handle))
        for call in calls:
            if self.get(call.name) is None:
                self.reasons.setdefault(call.name, "NVML: no answer")
                self._calls.pop(call.name, None)
        self._silence.clear()

    def get(self, name: str, time_ns: int | None = None) -> Any:
        """The answer of a call, None if there is none. `time_ns` into the trial; without it, before it."""
        ask = self._calls.get(name)
        if ask is None:
            return None
        try:
            answer = ask(self)
        except self._errors as error:
            when = "" if time_ns is None else f", {time_ns / 1e9:.1f} s into the trial"
            self.reasons.setdefault(name, f"NVML: {error}{when}")
            if len(self._silence) < _LOST_AFTER:
                self._silence.append(self.reasons[name])
            self._failures[name] = self._failures.get(name, 0) + 1
            if self._failures[name] == _LOST_AFTER:
                del self._calls[name]
            return None
        self._silence.clear()
        if self._failures.pop(name, None):
            del self.reasons[name]
        return answer

    @property
    def lost(self) -> str | None:
        """Why the GPU no longer answers at all; None while it does."""
        return self._silence[0] if len(self._silence) >= _LOST_AFTER else None

    def memory(self) -> tuple[int, int | None]:
        """(used, reserved). Only the second version of the call separates what the driver reserves."""
        if self._second_version:
            try:
                info = self.nvml.nvmlDeviceGetMemoryInfo(self.handle, version=self.nvml.nvmlMemory_v2)
                return int(info.used), int(info.reserved)
            except self.nvml.NVMLError as error:
                self._second_version = False
                self.reasons["memory_reserved"] = f"NVML: {error}"
        return int(self.nvml.nvmlDeviceGetMemoryInfo(self.handle).used), None

    def clock_mhz(self, kind: int) -> int:
        return int(self.nvml.nvmlDeviceGetClockInfo(self.handle, kind))

    def processes(self) -> dict[int, int | None]:
        found = self.nvml.nvmlDeviceGetComputeRunningProcesses(self.handle)
        return {process.pid: process.usedGpuMemory for process in found}

    def throttle_mask(self) -> int:
        """The call was renamed; older drivers know its first name only."""
        if self._new_name:
            try:
                return int(self.nvml.nvmlDeviceGetCurrentClocksEventReasons(self.handle))
            except self.nvml.NVMLError_FunctionNotFound:
                self._new_name = False
        return int(self.nvml.nvmlDeviceGetCurrentClocksThrottleReasons(self.handle))

    def _text(self, call: Callable[[], Any]) -> str | None:
        try:
            found = call()
        except self.nvml.NVMLError:
            return None
        return found.decode() if isinstance(found, bytes) else str(found)


def throttle_words(mask: int) -> list[str]:
    words = [word for bit, word in THROTTLE_WORDS.items() if mask & bit]
    unknown = mask & ~sum(THROTTLE_WORDS)
    return [*words, f"unknown ({unknown:#x})"] if unknown else words


def visible_devices(nvml: Any, variables: Mapping[str, str]) -> list[tuple[int, Any]]:
    """(number among all, handle) of the GPUs that a process with these variables can use, in its order.

    Numbers count along the bus, as they do for workers. As in CUDA, the list ends at the first entry
    that is no GPU.
    """
    handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]
    chosen = variables.get("CUDA_VISIBLE_DEVICES")
    if chosen is None:
        return list(enumerate(handles))
    found: list[tuple[int, Any]] = []
    for entry in (part.strip() for part in chosen.split(",")):
        if entry.isdigit() and int(entry) < len(handles):
            found.append((int(entry), handles[int(entry)]))
        elif entry.startswith("GPU-"):
            named = [at for at, handle in enumerate(handles) if _uuid(nvml, handle).startswith(entry)]
            if len(named) != 1:
                break
            found.append((named[0], handles[named[0]]))
        elif entry.startswith("MIG-"):  # a slice of a GPU, which has no number of its own
            try:
                found.append((len(found), nvml.nvmlDeviceGetHandleByUUID(entry.encode())))
            except nvml.NVMLError:
                break
        else:
            break
    return found


def _uuid(nvml: Any, handle: Any) -> str:
    found = nvml.nvmlDeviceGetUUID(handle)
    return found.decode() if isinstance(found, bytes) else str(found)


def start_nvml() -> tuple[Any, str | None]:
    """(the pynvml module, initialised, or None; why there is none). The one place that opens NVML."""
    try:
        import pynvml
    except ImportError:
        return None, "nvidia-ml-py is not installed; pip install nvidia-ml-py"
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        return None, f"NVML: {error}"
    return pynvml, None


@contextlib.contextmanager
def opened_nvml() -> Iterator[tuple[Any, str | None]]:
    """`start_nvml` for a short use; NVML is shut down afterwards."""
    nvml, reason = start_nvml()
    try:
        yield nvml, reason
    finally:
        if nvml is not None:
            with contextlib.suppress(nvml.NVMLError):
                nvml.nvmlShutdown()
