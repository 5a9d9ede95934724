"""Columns of the trials table that stand in outcome.json under a path of names."""

from __future__ import annotations

from typing import Any, NamedTuple

import polars as pl

from rldyno.columns import Column
from rldyno.results.rows import shares_text

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


def _framework(name: str, meaning: str) -> Measured:
    return Measured(pl.Int64, ("result", "device_memory", name), meaning)


def _cpu(name: str, meaning: str, dtype: type[pl.DataType] = pl.Int64) -> Measured:
    return Measured(dtype, ("cpu", name), meaning)


def _gpu(name: str, meaning: str, dtype: type[pl.DataType] = pl.Int64) -> Measured:
    return Measured(dtype, ("gpu", name), meaning)


def _energy(name: str, meaning: str) -> Measured:
    return Measured(pl.Float64, ("energy", name), meaning)


def _machine(name: str, meaning: str) -> Measured:
    return Measured(pl.Float64, ("machine", name), meaning)


MEASURED_COLUMNS = {
    "context_switches": _cpu("context_switches", "times the worker's threads left a CPU"),
    "context_switches_voluntary": _cpu("context_switches_voluntary", "because they waited for something"),
    "context_switches_involuntary": _cpu("context_switches_involuntary", "because the kernel made them"),
    "threads_peak": _cpu("threads_peak", "most threads at one time"),
    "threads_busy_mean": _cpu("threads_busy_mean", "threads that ran for 1 % of a second", pl.Float64),
    "threads_busy_peak": _cpu("threads_busy_peak", "most of them in one second"),
    "threads_runnable_mean": _cpu(
        "threads_runnable_mean", "threads that ran or waited for a CPU at one time", pl.Float64
    ),
    "threads_runnable_peak": _cpu("threads_runnable_peak", "most of them, mean of one second", pl.Float64),
    "oversubscribed_share": _cpu(
        "oversubscribed_share", "share of the training with more runnable threads than cores", pl.Float64
    ),
    "instructions": _cpu("instructions", "instructions of the worker's process tree"),
    "cycles": _cpu("cycles", "its CPU cycles"),
    "cache_references": _cpu("cache_references", "its last-level cache accesses"),
    "cache_misses": _cpu("cache_misses", "those that went on to memory"),
    "instructions_per_cycle": _cpu("instructions_per_cycle", "instructions / cycles", pl.Float64),
    "gpu_utilisation_percent": _gpu("utilisation_percent", "mean over the training", pl.Float64),
    "gpu_memory_peak_bytes": _gpu("memory_peak_bytes", "most GPU memory of the trial"),
    "gpu_framework_used_peak_bytes": _framework(
        "used_peak_bytes", "most GPU memory of the framework's arrays, by its own account"
    ),
    "gpu_framework_reserved_bytes": _framework(
        "reserved_bytes", "GPU memory that the framework's allocator holds at the end"
    ),
    "gpu_memory_source": _gpu(
        "memory_source", "processes: the trial's own; device: what the GPUs gained since before it", pl.String
    ),
    "gpu_memory_used_peak_bytes": _gpu("memory_used_peak_bytes", "most memory in use on its GPUs"),
    "gpu_memory_reserved_bytes": _gpu("memory_reserved_bytes", "what the driver keeps for itself there"),
    "gpu_power_mean_w": _gpu("power_mean_w", "mean over the training", pl.Float64),
    "gpu_power_peak_w": _gpu("power_peak_w", "highest reading", pl.Float64),
    "gpu_sm_clock_mean_mhz": _gpu("sm_clock_mean_mhz", "clock of the multiprocessors, mean", pl.Float64),
    "gpu_sm_clock_min_mhz": _gpu("sm_clock_min_mhz", "its lowest reading in the training"),
    "gpu_memory_clock_min_mhz": _gpu("memory_clock_min_mhz", "lowest clock of the GPU's memory"),
    "gpu_throttle": _gpu("throttle", "what slowed the GPU down, in which share of the training", pl.String),
    "cpu_energy_joules": _energy("cpu_joules", "energy of the CPU packages over the trial"),
    "gpu_energy_joules": _energy("gpu_joules", "energy of the trial's GPUs"),
    "energy_joules": _energy("total_joules", "both together"),
    "energy_to_threshold_joules": _energy("to_threshold_joules", "both together up to the threshold"),
    "machine_cpu_percent": _machine("cpu_percent", "CPU use of the whole machine in the training"),
    "machine_memory_percent": _machine("memory_percent", "memory use of the whole machine in the training"),
    "idle_cpu_percent": _machine("idle_cpu_percent", "CPU use of the machine before the run: usage error"),
    "idle_memory_percent": _machine("idle_memory_percent", "memory use right before the trial: usage error"),
    "memory_after_import_bytes": _memory("after_import_bytes", "resident set once the framework is imported"),
    "memory_after_build_bytes": _memory("after_build_bytes", "once environments and learner exist"),
    "memory_after_first_call_bytes": _memory("after_first_call_bytes", "once compiled and warmed up"),
    "memory_used_bytes": _memory("used_bytes", "at the end, once malloc has given back what was freed"),
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


SHOWN: dict[str, dict[str, Any]] = {
    "gpu_utilisation_percent": {
        "title": "GPU utilisation",
        "unit": "%",
        "better": "higher",
        "aliases": ("gpu",),
        "needs": "needs a GPU",
    },
    "gpu_memory_peak_bytes": {
        "title": "Peak GPU memory",
        "unit": "MB",
        "scale": 1e-6,
        "better": "lower",
        "aliases": ("gpu_memory",),
        "needs": "needs a GPU",
    },
    "energy_joules": {
        "title": "Energy",
        "unit": "J",
        "better": "lower",
        "aliases": ("energy",),
        "needs": "energy is not readable here",
    },
}


def measured() -> tuple[Column, ...]:
    kinds = {pl.Int64: int, pl.Float64: float, pl.String: str, pl.Boolean: bool}
    return tuple(
        Column(
            name,
            kinds[found.dtype],
            found.meaning,
            source=".".join(found.path),
            derive=shares_text if found.dtype is pl.String else None,
            **SHOWN.get(name, {}),
        )
        for name, found in MEASURED_COLUMNS.items()
    )
