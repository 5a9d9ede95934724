"""Metrics of the memory that the worker's process tree holds."""

from __future__ import annotations

from collections.abc import Callable

from rldyno.columns import Column
from rldyno.probe.metric import Answer, Figure, Metric
from rldyno.probe.readings import TrialReadings

USS = "uss_bytes"


def _held(key: str) -> Callable[[TrialReadings, str], Answer]:
    return lambda readings, metric: readings.memory[key]


METRICS: tuple[Metric[TrialReadings], ...] = (
    Metric(
        "rss_bytes",
        int,
        "resident set of the process tree",
        (
            Figure(
                Column(
                    "memory_after_import_bytes",
                    int,
                    "resident set once the framework is imported",
                    title="Memory after import",
                    unit="MB",
                    scale=1e-6,
                    better="lower",
                    source="memory.after_import_bytes",
                ),
                _held("after_import_bytes"),
            ),
            Figure(
                Column(
                    "memory_after_build_bytes",
                    int,
                    "resident set once environments and learner exist",
                    title="Memory after building",
                    unit="MB",
                    scale=1e-6,
                    better="lower",
                    source="memory.after_build_bytes",
                ),
                _held("after_build_bytes"),
            ),
            Figure(
                Column(
                    "memory_after_first_call_bytes",
                    int,
                    "resident set once compiled and warmed up",
                    title="Memory after the first call",
                    unit="MB",
                    scale=1e-6,
                    better="lower",
                    source="memory.after_first_call_bytes",
                ),
                _held("after_first_call_bytes"),
            ),
            Figure(
                Column(
                    "memory_used_bytes",
                    int,
                    "resident set at the end, once malloc has given back what was freed",
                    title="Memory in use at the end",
                    unit="MB",
                    scale=1e-6,
                    better="lower",
                    source="memory.used_bytes",
                ),
                _held("used_bytes"),
            ),
            Figure(
                Column(
                    "memory_peak_bytes",
                    int,
                    "highest resident set of the process tree",
                    source="memory.peak_bytes",
                ),
                _held("peak_bytes"),
                in_table=False,
            ),
            Figure(
                Column(
                    "memory_steady_bytes",
                    int,
                    "resident set, median of the second half of the training",
                    title="Steady memory",
                    unit="MB",
                    scale=1e-6,
                    better="lower",
                    source="memory.steady_bytes",
                ),
                _held("steady_bytes"),
            ),
            Figure(
                Column(
                    "memory_growth_bytes_per_s",
                    float,
                    "growth of the resident set over the second half of the training",
                    title="Growth of memory",
                    unit="kB/s",
                    scale=1e-3,
                    better="lower",
                    source="memory.growth_bytes_per_s",
                ),
                _held("growth_bytes_per_s"),
            ),
            Figure(
                Column(
                    "memory_growth_low", float, "lower end of its 95 % interval", source="memory.growth_low"
                ),
                _held("growth_low"),
            ),
            Figure(
                Column(
                    "memory_growth_high", float, "upper end of its 95 % interval", source="memory.growth_high"
                ),
                _held("growth_high"),
            ),
            Figure(
                Column(
                    "memory_leak",
                    bool,
                    "whether memory certainly grows until the end",
                    title="Memory leak",
                    source="memory.leak",
                ),
                _held("leak"),
            ),
        ),
        rate="sample",
    ),
    Metric(
        USS,
        int,
        "memory that belongs to the process tree alone",
        (
            Figure(
                Column(
                    "memory_steady_uss_bytes",
                    int,
                    "memory that ending the trial would free, median of the second half of the training",
                    title="Steady private memory",
                    unit="MB",
                    scale=1e-6,
                    better="lower",
                    source="memory.uss_steady_bytes",
                ),
                _held("uss_steady_bytes"),
            ),
        ),
        rate="rare",
        read=lambda now: now.tree.uss_bytes(),
    ),
)
