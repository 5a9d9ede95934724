"""Every metric that the probe samples. To add one, add its `Metric` to the list.

The header of samples.csv, the figures of outcome.json and the columns of the result table follow from it.
"""

from __future__ import annotations

from typing import Any

from rldyno.columns import Column
from rldyno.probe import energy_metrics, gpu_metrics, machine_metrics, process_metrics
from rldyno.probe.metric import Metric

METRICS: list[Metric[Any]] = [
    *process_metrics.METRICS,
    *machine_metrics.METRICS,
    *gpu_metrics.METRICS,
    *energy_metrics.METRICS,
]

OTHER_COLUMNS = (
    Column(
        "noise_calibration_spread",
        float,
        "spread of the calibration's repeats, relative",
        source="noise.calibration_spread",
    ),
    Column(
        "noise_calibration_slowdown",
        float,
        "how much slower than the best calibration before it",
        source="noise.calibration_slowdown",
    ),
    Column(
        "noise_steal_percent",
        float,
        "CPU time that the hypervisor took for other machines",
        unit="%",
        source="noise.steal_percent",
    ),
    Column(
        "noise_foreign_cpu_percent",
        float,
        "CPU time that other processes took",
        unit="%",
        source="noise.foreign_cpu_percent",
    ),
    Column(
        "cpu_frequency_mhz",
        float,
        "clock of the worker's CPUs right before the trial",
        title="CPU clock",
        unit="MHz",
        source="noise.frequency_mhz",
    ),
    Column(
        "gpu_framework_used_peak_bytes",
        int,
        "most GPU memory of the framework's arrays, as the framework reports it",
        title="Peak GPU memory of arrays",
        unit="MB",
        scale=1e-6,
        better="lower",
        source="result.device_memory.used_peak_bytes",
    ),
    Column(
        "gpu_framework_reserved_bytes",
        int,
        "GPU memory that the framework's allocator holds at the end",
        title="GPU memory of the allocator",
        unit="MB",
        scale=1e-6,
        better="lower",
        source="result.device_memory.reserved_bytes",
    ),
    Column(
        "transfer_to_device_bytes",
        int,
        "moved from the host to the device",
        title="Moved to the device",
        unit="MB",
        scale=1e-6,
        source="result.transfer.to_device_bytes",
    ),
    Column(
        "transfer_to_host_bytes",
        int,
        "moved from the device to the host",
        title="Moved to the host",
        unit="MB",
        scale=1e-6,
        source="result.transfer.to_host_bytes",
    ),
    Column(
        "transfer_put_ns",
        int,
        "time spent giving arrays to the device",
        title="Time of transfers to the device",
        unit="s",
        scale=1e-9,
        better="lower",
        source="result.transfer.put_ns",
    ),
    Column(
        "transfer_read_ns",
        int,
        "time spent waiting for losses and priorities",
        title="Time of reading from the device",
        unit="s",
        scale=1e-9,
        better="lower",
        source="result.transfer.read_ns",
    ),
    Column("attempt", int, "which attempt of the trial this is", source="attempt"),
)
"""Figures of outcome.json that others measure: the machine's noise, and what the worker reports."""


def sample_columns() -> dict[str, type[int] | type[float]]:
    """The columns of samples.csv, in order, with the kind of number that each holds."""
    return {"time_ns": int} | {metric.name: metric.kind for metric in METRICS}


def sample_meanings() -> dict[str, str]:
    """Column of samples.csv → one sentence for readers of the exported table."""
    return {"time_ns": "nanoseconds since the worker was spawned"} | {
        metric.name: metric.meaning for metric in METRICS
    }


def columns() -> tuple[Column, ...]:
    """The columns of the result table that outcome.json holds as figures, in order."""
    figures = [figure for metric in METRICS for figure in metric.figures]
    figures += [figure for _, figure in process_metrics.COUNTED]
    return (*(figure.column for figure in figures if figure.in_table), *OTHER_COLUMNS)
