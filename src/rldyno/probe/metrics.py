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


def sample_columns() -> dict[str, type[int] | type[float]]:
    """The columns of samples.csv, in order, with the kind of number that each holds."""
    return {"time_ns": int} | {metric.name: metric.kind for metric in METRICS}


def sample_meanings() -> dict[str, str]:
    """Column of samples.csv → one sentence for readers of the exported table."""
    return {"time_ns": "nanoseconds since the worker was spawned"} | {
        metric.name: metric.meaning for metric in METRICS
    }


def columns() -> tuple[Column, ...]:
    """The columns of the result table that come from the probe, in order."""
    figures = [figure for metric in METRICS for figure in metric.figures]
    figures += [figure for _, figure in process_metrics.COUNTED]
    return tuple(figure.column for figure in figures if figure.in_table)
