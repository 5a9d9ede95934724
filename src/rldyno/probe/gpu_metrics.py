"""Metrics of the trial's GPUs, through NVML."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from rldyno.columns import Column
from rldyno.probe import nvml
from rldyno.probe.gpu_memory import DEVICE, FRAMEWORK, PROCESSES
from rldyno.probe.metric import (
    Answer,
    Figure,
    Metric,
    Value,
    lowest_reading,
    mean,
    mean_reading,
    peak_of_trial,
)

if TYPE_CHECKING:
    from rldyno.probe.track import Span, Track

_NO_READING = "training was too short for a reading that describes it alone"
_NEEDS_GPU = "needs a GPU"


@dataclass(frozen=True, eq=False)
class GpuReadings:
    """What was read of one GPU, or of all GPUs of a trial together. Implements `Readings`."""

    tracks: Mapping[str, Track]
    throttled: Mapping[str, Track]
    """Reason of a lower clock → the readings that had it."""
    reasons: Sequence[Mapping[str, str]]
    """Of each GPU: NVML call → why it does not answer."""
    joules: Answer
    energy_source: str
    span: Span
    metrics: Mapping[str, GpuMetric]
    memory: Mapping[str, int] = field(default_factory=dict)
    """Source → the most memory of the trial that it saw; empty for a single GPU."""
    no_memory: Mapping[str, str] = field(default_factory=dict)
    """Source → why it does not count."""

    def track(self, metric: str) -> Track:
        return self.tracks[metric]

    def why(self, metric: str) -> str:
        described = self.metrics[metric]
        found = (known[call] for call in described.calls for known in self.reasons if call in known)
        return next(found, described.missing)


def _same(answer: Any) -> Value:
    value: Value = answer
    return value


@dataclass(frozen=True, eq=False)
class GpuMetric(Metric[GpuReadings]):
    """A metric that one NVML call answers for each GPU."""

    missing: str = _NO_READING
    call: nvml.Call | None = None
    """None: `GpuReader` works it out."""
    pick: Callable[[Any], Value] = _same
    """Its value in the answer of the call."""
    together: Callable[[Sequence[Any]], Any] = sum
    """One value of several GPUs."""
    refused: tuple[str, ...] = ()
    """Calls whose refusal is the reason too, before that of `call`."""

    @property
    def calls(self) -> tuple[str, ...]:
        return self.refused if self.call is None else (*self.refused, self.call.name)


def _any_bit(masks: Sequence[int]) -> int:
    united = 0
    for mask in masks:
        united |= mask
    return united


def _own_peak(readings: GpuReadings, metric: str) -> Answer:
    return max(readings.memory.values(), default=None), readings.why(metric)


def _memory_source(readings: GpuReadings, metric: str) -> Answer:
    """Of equal ones the first, which is the one that names the trial's own memory."""
    known = readings.memory
    return (max(known, key=known.__getitem__) if known else None), readings.why(metric)


def _peak_of_source(readings: GpuReadings, metric: str, source: str, call: nvml.Call) -> Answer:
    refused = next((known[call.name] for known in readings.reasons if call.name in known), None)
    return readings.memory.get(source), refused or readings.no_memory.get(source) or readings.why(metric)


def _energy(readings: GpuReadings, metric: str) -> Answer:
    return readings.joules


def _energy_source(readings: GpuReadings, metric: str) -> Answer:
    joules, reason = readings.joules
    return (None if joules is None else readings.energy_source), reason


def _throttle(readings: GpuReadings, metric: str) -> Answer:
    """Reason of a slow-down → share of the readings that had it."""
    total = readings.track(metric).count(readings.span)
    if not total:
        return None, readings.why(metric)
    harmless = set(nvml.throttle_words(nvml.HARMLESS))
    shares = {
        word: track.count(readings.span) / total
        for word, track in readings.throttled.items()
        if word not in harmless
    }
    return {word: share for word, share in shares.items() if share > 0}, None


UTILISATION = GpuMetric(
    "gpu_percent",
    float,
    "utilisation of the trial's GPUs, mean of several",
    (
        Figure(
            Column(
                "gpu_utilisation_percent",
                float,
                "utilisation of the GPUs, mean over the training",
                title="GPU utilisation",
                unit="%",
                better="higher",
                source="gpu.utilisation_percent",
                missing=_NEEDS_GPU,
                aliases=("gpu",),
                needs="needs a GPU",
            ),
            mean,
        ),
    ),
    call=nvml.PERCENT,
    together=statistics.fmean,
)
OWN_MEMORY = GpuMetric(
    "gpu_memory_bytes",
    int,
    "GPU memory of the trial: of its processes, or what the GPUs gained since before it; the larger",
    (
        Figure(
            Column(
                "gpu_memory_peak_bytes",
                int,
                "most GPU memory of the trial: the largest of what its processes held, what the GPUs gained "
                "and what the framework reports",
                title="Peak GPU memory",
                unit="MB",
                scale=1e-6,
                better="lower",
                source="gpu.memory_peak_bytes",
                missing=_NEEDS_GPU,
                # Older records leave out what the framework reports.
                parts=("gpu_framework_used_peak_bytes", "gpu_framework_reserved_bytes"),
                parts_may_miss=True,
                derive=lambda *sources: max((held for held in sources if held is not None), default=None),
                aliases=("gpu_memory",),
                needs="needs a GPU",
            ),
            _own_peak,
        ),
        Figure(
            Column(
                "gpu_memory_source",
                str,
                "where the peak is from. processes: NVML's list, once a second; device: what the GPUs gained "
                "since before the trial, with every sample; framework: its own report",
                source="gpu.memory_source",
                parts=(
                    "gpu_memory_peak_bytes",
                    "gpu_framework_used_peak_bytes",
                    "gpu_framework_reserved_bytes",
                ),
                parts_may_miss=True,
                derive=lambda said, peak, *framework: FRAMEWORK if peak in framework and peak else said,
            ),
            _memory_source,
        ),
        Figure(
            Column(
                "gpu_memory_processes_peak_bytes",
                int,
                "most GPU memory that NVML listed for the trial's processes, once a second",
                title="Peak GPU memory of its processes",
                unit="MB",
                scale=1e-6,
                better="lower",
                source="gpu.memory_processes_peak_bytes",
            ),
            partial(_peak_of_source, source=PROCESSES, call=nvml.PROCESSES),
        ),
        Figure(
            Column(
                "gpu_memory_gained_peak_bytes",
                int,
                "most memory that the GPUs gained since before the trial",
                title="Peak GPU memory gained by the device",
                unit="MB",
                scale=1e-6,
                better="lower",
                source="gpu.memory_gained_peak_bytes",
            ),
            partial(_peak_of_source, source=DEVICE, call=nvml.MEMORY),
        ),
    ),
    missing="the trial held no GPU memory",
    refused=(nvml.MEMORY.name, nvml.PROCESSES.name),
)
USED_MEMORY = GpuMetric(
    "gpu_memory_used_bytes",
    int,
    "memory in use on the trial's GPUs, by any process",
    (
        Figure(
            Column(
                "gpu_memory_used_peak_bytes",
                int,
                "most memory in use on the GPUs, by any process",
                title="Peak memory in use on the GPU",
                unit="MB",
                scale=1e-6,
                better="lower",
                source="gpu.memory_used_peak_bytes",
            ),
            peak_of_trial,
        ),
    ),
    call=nvml.MEMORY,
    pick=lambda answer: answer[0],
)
RESERVED_MEMORY = GpuMetric(
    "gpu_memory_reserved_bytes",
    int,
    "memory that the driver keeps for itself on the trial's GPUs",
    (
        Figure(
            Column(
                "gpu_memory_reserved_bytes",
                int,
                "memory that the driver keeps for itself on the GPUs",
                title="GPU memory kept by the driver",
                unit="MB",
                scale=1e-6,
                source="gpu.memory_reserved_bytes",
            ),
            peak_of_trial,
        ),
    ),
    call=nvml.MEMORY,
    pick=lambda answer: answer[1],
    refused=("memory_reserved",),
)
POWER = GpuMetric(
    "gpu_power_w",
    float,
    "power of the trial's GPUs together",
    (
        Figure(
            Column(
                "gpu_power_mean_w",
                float,
                "power of the GPUs, mean over the training",
                title="GPU power",
                unit="W",
                better="lower",
                source="gpu.power_mean_w",
            ),
            mean,
        ),
        Figure(
            Column(
                "gpu_power_peak_w",
                float,
                "power of the GPUs, highest reading",
                title="Peak GPU power",
                unit="W",
                better="lower",
                source="gpu.power_peak_w",
            ),
            peak_of_trial,
        ),
        Figure(
            Column("energy_joules", float, "energy since the trial began", source="gpu.energy_joules"),
            _energy,
            in_table=False,
        ),
        Figure(
            Column(
                "energy_source",
                str,
                "counter: NVML's energy counter; power: the integral of power over time",
                source="gpu.energy_source",
            ),
            _energy_source,
            in_table=False,
        ),
    ),
    call=nvml.POWER,
)
SM_CLOCK = GpuMetric(
    "gpu_sm_clock_mhz",
    int,
    "clock of the multiprocessors, slowest of several GPUs",
    (
        Figure(
            Column(
                "gpu_sm_clock_mean_mhz",
                float,
                "clock of the multiprocessors, mean over the training",
                title="SM clock",
                unit="MHz",
                better="higher",
                source="gpu.sm_clock_mean_mhz",
            ),
            mean_reading,
        ),
        Figure(
            Column(
                "gpu_sm_clock_min_mhz",
                int,
                "clock of the multiprocessors, lowest reading of the training",
                title="Lowest SM clock",
                unit="MHz",
                better="higher",
                source="gpu.sm_clock_min_mhz",
            ),
            lowest_reading,
        ),
    ),
    call=nvml.SM_CLOCK,
    together=min,
)
MEMORY_CLOCK = GpuMetric(
    "gpu_memory_clock_mhz",
    int,
    "clock of the GPU's memory, slowest of several GPUs",
    (
        Figure(
            Column(
                "gpu_memory_clock_min_mhz",
                int,
                "clock of the GPU's memory, lowest reading of the training",
                title="Lowest memory clock",
                unit="MHz",
                better="higher",
                source="gpu.memory_clock_min_mhz",
            ),
            lowest_reading,
        ),
    ),
    call=nvml.MEMORY_CLOCK,
    together=min,
)
THROTTLE = GpuMetric(
    "gpu_throttle",
    int,
    "NVML's mask of reasons for a lower clock, all GPUs together",
    (
        Figure(
            Column(
                "gpu_throttle",
                str,
                "what slowed the GPU down, in which share of the training",
                title="GPU slowed down by",
                source="gpu.throttle",
            ),
            _throttle,
        ),
    ),
    call=nvml.THROTTLE,
    together=_any_bit,
)

METRICS = (
    UTILISATION,
    OWN_MEMORY,
    USED_MEMORY,
    RESERVED_MEMORY,
    POWER,
    SM_CLOCK,
    MEMORY_CLOCK,
    THROTTLE,
)
