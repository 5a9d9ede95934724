"""Reads the GPUs of a trial for its samples."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from rldyno.probe.energy_metrics import GPU_ENERGY
from rldyno.probe.gpu_memory import OwnMemory
from rldyno.probe.gpu_metrics import OWN_MEMORY, THROTTLE, GpuMetric
from rldyno.probe.metric import Value
from rldyno.probe.metrics import METRICS
from rldyno.probe.nvml import CALLS, Call, Device, start_nvml, throttle_words, visible_devices
from rldyno.probe.track import Track

_COST_LIMIT = 50
"""The frequent calls are made less often where they would take more than 1/50 of a core."""
_STANDS_STILL = "NVML: the energy counter did not move during the trial"


class GpuReader:
    """Reads the trial's GPUs. Opened before the worker is spawned: energy and memory count from there."""

    def __init__(
        self, nvml: Any, devices: Sequence[Device], metrics: Sequence[GpuMetric] | None = None
    ) -> None:
        self.metrics = {metric.name: metric for metric in (gpu_metrics() if metrics is None else metrics)}
        self._direct = [metric for metric in self.metrics.values() if metric.call is not None]
        calls = all_calls(self.metrics.values())
        self._fast = [call.name for call in calls if call.every_sample]
        self._slow = [call.name for call in calls if not call.every_sample]
        self.devices = [WatchedGpu(device, self._direct) for device in devices]
        self.reasons: dict[str, str] = {}
        self.memory = OwnMemory(
            self.devices, [pid for device in devices for pid in device.get("processes") or ()]
        )
        self.tracks = {name: Track() for name in self.metrics}
        self.throttled: dict[str, Track] = {}
        self._nvml = nvml
        self._fast_interval_ns = _COST_LIMIT * _cost_ns(devices, self._fast)
        self._next_fast = 0

    def read(self, time_ns: int, pids: Sequence[int], slow: bool) -> dict[str, Value]:
        fast = slow or time_ns >= self._next_fast
        if not fast:
            return {}
        self._next_fast = time_ns + self._fast_interval_ns
        for watched in self.devices:
            watched.take([*self._fast, *self._slow] if slow else self._fast, time_ns)
        row = {metric.name: self._together(metric) for metric in self._direct}
        row[OWN_MEMORY.name] = self.memory.read(pids, listed=slow)
        for column, value in row.items():
            self.tracks[column].add(time_ns, value)
        _note(self.throttled, row[THROTTLE.name], time_ns)
        if slow:
            row[GPU_ENERGY] = self.joules()
        return row

    def _together(self, metric: GpuMetric) -> Value:
        """One value of all GPUs; None if one of them did not answer: the rest would not be the whole."""
        values = [watched.value(metric) for watched in self.devices]
        if None in values:
            return None
        value: Value = metric.together(values)
        return value

    def joules(self) -> float | None:
        parts = [watched.joules for watched in self.devices]
        return None if None in parts else sum(part for part in parts if part is not None)

    def last_joules(self, time_ns: int) -> float | None:
        for watched in self.devices:
            watched.meter(time_ns)
        return self.joules()

    def close(self) -> None:
        try:
            self._nvml.nvmlShutdown()
        except self._nvml.NVMLError as error:
            self.reasons.setdefault("shutdown", f"NVML: {error}")


def gpu_metrics() -> list[GpuMetric]:
    return [metric for metric in METRICS if isinstance(metric, GpuMetric)]


def all_calls(metrics: Iterable[GpuMetric]) -> list[Call]:
    """NVML's calls for these metrics, each once, and those that energy and own memory need."""
    return list(dict.fromkeys((*CALLS, *(metric.call for metric in metrics if metric.call is not None))))


def _cost_ns(devices: Sequence[Device], calls: Sequence[str]) -> int:
    """Time that these calls take at best of three."""
    costs = []
    for _ in range(3):
        begin = time.monotonic_ns()
        for device in devices:
            for name in calls:
                device.get(name)
        costs.append(time.monotonic_ns() - begin)
    return min(costs)


class WatchedGpu:
    """One GPU with its latest answers and all its readings."""

    def __init__(self, device: Device, metrics: Sequence[GpuMetric]) -> None:
        self.device = device
        self.tracks: dict[str, Track] = {metric.name: Track() for metric in metrics}
        self.throttled: dict[str, Track] = {}
        self._metrics = metrics
        self._answers: dict[str, Any] = {}
        memory, counter = device.get("memory"), device.get("energy_mj")
        self._used_before = None if memory is None else int(memory[0])
        self._counter_before: int | None = counter
        self._counter: int | None = counter
        self._power: tuple[int, float] | None = None
        self.joules: float | None = 0.0
        """Since it was opened; None while that is unknown."""
        self.no_energy: str | None = None
        """Why it stays unknown."""
        if counter is None and device.get("power_w") is None:
            self.joules, self.no_energy = None, device.reasons["energy_mj"]

    @property
    def energy_source(self) -> str:
        return "power" if self._counter_before is None else "counter"

    def take(self, names: Sequence[str], time_ns: int) -> None:
        self._answers = {name: self.device.get(name, time_ns) for name in names}
        for metric in self._metrics:
            if metric.call is not None and metric.call.name in self._answers:
                self.tracks[metric.name].add(time_ns, self.value(metric))
        _note(self.throttled, self._answers.get("throttle"), time_ns)
        self._add_energy(time_ns)

    def meter(self, time_ns: int) -> None:
        """Bring the energy up to date, and nothing else."""
        self._answers = {name: self.device.get(name, time_ns) for name in ("energy_mj", "power_w")}
        self._add_energy(time_ns)

    def value(self, metric: GpuMetric) -> Value:
        answer = None if metric.call is None else self._answers.get(metric.call.name)
        return None if answer is None else metric.pick(answer)

    def _add_energy(self, time_ns: int) -> None:
        """The counter's rise, or where there is none the integral of power over time."""
        if self.no_energy:
            return
        if self._counter_before is not None:
            if "energy_mj" in self._answers:
                self._add_counter(self._answers["energy_mj"], time_ns)
            return
        power = self._answers.get("power_w")
        if power is None:
            self.joules, self.no_energy = None, self.device.reasons["power_w"]
            return
        if self._power is not None and self.joules is not None:
            before_ns, before_w = self._power
            self.joules += (time_ns - before_ns) / 1e9 * (before_w + power) / 2
        self._power = time_ns, power

    def _add_counter(self, counter: int | None, time_ns: int) -> None:
        """A reading that failed loses nothing: the counter still counts."""
        self.joules = None
        if counter is None or self._counter_before is None or self._counter is None:
            return
        if counter < self._counter:
            self.no_energy = f"NVML: the energy counter was set back, {time_ns / 1e9:.1f} s into the trial"
            return
        self._counter = counter
        self.joules = (counter - self._counter_before) / 1e3

    def why_no_energy(self) -> str | None:
        """None if there is a value. A counter that never moved is broken: every GPU draws power."""
        if self.no_energy or self.joules is None:
            return self.no_energy or self.device.reasons.get("energy_mj") or "NVML: no answer"
        return None if self.joules else _STANDS_STILL

    @property
    def listed(self) -> Mapping[int, int | None] | None:
        """pid → bytes, None where NVML does not show how much; None if it does not list processes."""
        return self._answers.get("processes")

    def gained(self) -> int | None:
        memory = self._answers.get("memory")
        if memory is None or self._used_before is None:
            return None
        return max(0, int(memory[0]) - self._used_before)


def _note(throttled: dict[str, Track], mask: Value, time_ns: int) -> None:
    for word in throttle_words(int(mask or 0)):
        throttled.setdefault(word, Track()).add(time_ns, 1)


def open_gpus(
    variables: Mapping[str, str], count: int, start: Callable[[], tuple[Any, str | None]] = start_nvml
) -> tuple[GpuReader | None, str | None]:
    """A reader of the first `count` GPUs that a process with these variables sees, or why there is none."""
    nvml, reason = start()
    if nvml is None:
        return None, reason
    try:
        found = visible_devices(nvml, variables)[:count]
        calls = all_calls(gpu_metrics())
        devices = [Device(nvml, handle, index, calls) for index, handle in found]
    except nvml.NVMLError as error:
        nvml.nvmlShutdown()
        return None, f"NVML: {error}"
    if not devices:
        nvml.nvmlShutdown()
        return None, f"no GPU is visible (CUDA_VISIBLE_DEVICES={variables.get('CUDA_VISIBLE_DEVICES', '')!r})"
    return GpuReader(nvml, devices), None
