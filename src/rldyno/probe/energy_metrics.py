"""Metrics of energy: counters since the trial began, start-up included."""

from __future__ import annotations

from rldyno.columns import Column
from rldyno.probe.metric import Answer, Figure, Metric
from rldyno.probe.readings import TrialReadings

CPU_ENERGY, GPU_ENERGY, ENERGY = "cpu_energy_joules", "gpu_energy_joules", "energy_joules"
"""Names of the metrics; ENERGY is both together."""


def _total(readings: TrialReadings, metric: str) -> Answer:
    """A part that exists and cannot be read leaves the total unknown."""
    hardware = readings.hardware
    reason = hardware.reason(metric)
    last = hardware.meters[metric].last if metric in hardware.meters and reason is None else None
    return last, reason or "no reading was taken"


def _to_threshold(readings: TrialReadings, metric: str) -> Answer:
    if readings.result is None or not readings.result.threshold:
        return None, "the study has no threshold"
    reached_ns = readings.result.reached_threshold_ns
    if reached_ns is None:
        return None, "the threshold was not reached"
    reason = readings.hardware.reason(metric)
    if reason:
        return None, reason
    return readings.hardware.meters[metric].at(reached_ns), "there was no reading at that time"


METRICS: tuple[Metric[TrialReadings], ...] = (
    Metric(
        CPU_ENERGY,
        float,
        "energy of the CPU packages since the trial began",
        (
            Figure(
                Column(
                    "cpu_energy_joules",
                    float,
                    "energy of the CPU packages over the trial",
                    title="CPU energy",
                    unit="J",
                    better="lower",
                    source="energy.cpu_joules",
                ),
                _total,
            ),
        ),
    ),
    Metric(
        GPU_ENERGY,
        float,
        "energy of the trial's GPUs since it began",
        (
            Figure(
                Column(
                    "gpu_energy_joules",
                    float,
                    "energy of the trial's GPUs over the trial",
                    title="GPU energy",
                    unit="J",
                    better="lower",
                    source="energy.gpu_joules",
                ),
                _total,
            ),
        ),
    ),
    Metric(
        ENERGY,
        float,
        "energy of CPU packages and GPUs together since the trial began",
        (
            Figure(
                Column(
                    "energy_joules",
                    float,
                    "energy of CPU packages and GPUs together over the trial",
                    title="Energy",
                    unit="J",
                    better="lower",
                    source="energy.total_joules",
                    aliases=("energy",),
                    needs="needs readable energy counters",
                    missing="energy is not readable here",
                ),
                _total,
            ),
            Figure(
                Column(
                    "energy_to_threshold_joules",
                    float,
                    "energy of CPU packages and GPUs together up to the threshold",
                    title="Energy to the threshold",
                    unit="J",
                    better="lower",
                    source="energy.to_threshold_joules",
                ),
                _to_threshold,
            ),
        ),
    ),
)
