"""Metrics of the whole machine."""

from __future__ import annotations

from rldyno.columns import Column
from rldyno.probe.metric import Answer, Figure, Metric, mean
from rldyno.probe.readings import TrialReadings

_NOT_IDLE = "not measured before the trial"


def _idle_cpu(readings: TrialReadings, metric: str) -> Answer:
    idle = readings.idle
    return (idle.cpu_percent, idle.cpu_reason) if idle else (None, _NOT_IDLE)


def _idle_memory(readings: TrialReadings, metric: str) -> Answer:
    return (readings.idle.memory_percent if readings.idle else None), _NOT_IDLE


METRICS: tuple[Metric[TrialReadings], ...] = (
    Metric(
        "machine_cpu_percent",
        float,
        "CPU use of the whole machine",
        (
            Figure(
                Column(
                    "machine_cpu_percent",
                    float,
                    "CPU use of the whole machine, mean over the training",
                    title="CPU use of the machine",
                    unit="%",
                    source="machine.cpu_percent",
                ),
                mean,
            ),
            Figure(
                Column(
                    "idle_cpu_percent",
                    float,
                    "CPU use of the machine before the run: the error of machine_cpu_percent",
                    title="CPU use before the run",
                    unit="%",
                    source="machine.idle_cpu_percent",
                ),
                _idle_cpu,
            ),
        ),
        read=lambda now: now.machine_cpu_percent,
    ),
    Metric(
        "machine_memory_percent",
        float,
        "memory use of the whole machine",
        (
            Figure(
                Column(
                    "machine_memory_percent",
                    float,
                    "memory use of the whole machine, mean over the training",
                    title="Memory use of the machine",
                    unit="%",
                    source="machine.memory_percent",
                ),
                mean,
            ),
            Figure(
                Column(
                    "idle_memory_percent",
                    float,
                    "memory use right before the trial: the error of machine_memory_percent",
                    title="Memory use before the run",
                    unit="%",
                    source="machine.idle_memory_percent",
                ),
                _idle_memory,
            ),
        ),
        read=lambda now: now.machine.memory_percent(),
    ),
)
