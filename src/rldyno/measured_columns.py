"""Columns of the trials table that stand in outcome.json under a path of names."""

from __future__ import annotations

from typing import Any, NamedTuple

import polars as pl

Json = dict[str, Any]


class Measured(NamedTuple):
    dtype: type[pl.DataType]
    path: tuple[str, ...]
    meaning: str


def _memory(name: str, meaning: str, dtype: type[pl.DataType] = pl.Int64) -> Measured:
    return Measured(dtype, ("memory", name), meaning)


def _noise(name: str, meaning: str, dtype: type[pl.DataType] = pl.Float64) -> Measured:
    return Measured(dtype, ("noise", name), meaning)


def _transfer(name: str, meaning: str) -> Measured:
    return Measured(pl.Int64, ("result", "transfer", name), meaning)


MEASURED_COLUMNS = {
    "memory_after_import_bytes": _memory("after_import_bytes", "resident set once the framework is imported"),
    "memory_after_build_bytes": _memory("after_build_bytes", "once environments and learner exist"),
    "memory_after_first_call_bytes": _memory("after_first_call_bytes", "once compiled and warmed up"),
    "memory_steady_bytes": _memory("steady_bytes", "median of the second half of the training"),
    "memory_steady_uss_bytes": _memory("uss_steady_bytes", "the same of what ending the trial would free"),
    "memory_growth_bytes_per_s": _memory(
        "growth_bytes_per_s", "growth of the resident set over the second half of the training", pl.Float64
    ),
    "memory_growth_low": _memory("growth_low", "lower end of its 95 % interval", pl.Float64),
    "memory_growth_high": _memory("growth_high", "upper end of its 95 % interval", pl.Float64),
    "memory_leak": _memory("leak", "whether memory grows for certain, and to the end", pl.Boolean),
    "noise_calibration_spread": _noise("calibration_spread", "spread of the calibration's repeats, relative"),
    "noise_calibration_slowdown": _noise(
        "calibration_slowdown", "how much slower than the best calibration before it"
    ),
    "noise_steal_percent": _noise("steal_percent", "CPU time that the hypervisor took for others"),
    "noise_foreign_cpu_percent": _noise("foreign_cpu_percent", "CPU time that other processes took"),
    "cpu_frequency_mhz": _noise("frequency_mhz", "clock of the worker's CPUs right before the trial"),
    "transfer_to_device_bytes": _transfer("to_device_bytes", "moved from the host to the device"),
    "transfer_to_host_bytes": _transfer("to_host_bytes", "moved from the device to the host"),
    "transfer_put_ns": _transfer("put_ns", "time spent handing arrays over"),
    "transfer_read_ns": _transfer("read_ns", "time spent waiting for losses and priorities"),
    "attempt": Measured(pl.Int64, ("attempt",), "which attempt of the trial this is"),
}


def measured_row(outcome: Json) -> Json:
    return {name: _found(outcome, column.path) for name, column in MEASURED_COLUMNS.items()} | {
        "warnings": "; ".join(outcome.get("warnings") or []) or None
    }


def _found(value: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value
