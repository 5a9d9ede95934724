"""Outcomes of synthetic trials: blocks of outcome.json that look like measured ones."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rldyno_rig import schema
from synthetic_series import nanoseconds


def gpu_json(train_s: float) -> dict[str, Any]:
    """A GPU at 180 W and a third of its time, which throttled for a tenth of it."""
    gpu = {
        "utilisation_percent": 35.0,
        "memory_peak_bytes": 700_000_000,
        "memory_source": "processes",
        "memory_used_peak_bytes": 900_000_000,
        "memory_reserved_bytes": 400_000_000,
        "power_mean_w": 180.0,
        "power_peak_w": 190.0,
        "sm_clock_mean_mhz": 1900.0,
        "sm_clock_min_mhz": 1700,
        "memory_clock_min_mhz": 2600,
        "throttle": {"power cap": 0.1},
        "reasons": {},
    }
    joules = 180 * train_s
    energy = {"cpu_joules": None, "gpu_joules": joules, "total_joules": joules, "to_threshold_joules": joules}
    return {"gpu": gpu, "energy": energy | {"reasons": {"cpu_joules": "no counter here"}}}


def memory_json(rss_mb: float) -> dict[str, Any]:
    """Start-up marks at rising shares of the footprint, which stays as it is from then on."""
    shares = {
        "after_import": 0.7,
        "after_build": 0.75,
        "after_first_call": 0.9,
        "used": 0.8,
        "steady": 0.99,
        "peak": 1.0,
    }
    sizes = {f"{name}_bytes": int(rss_mb * 1e6 * share) for name, share in shares.items()}
    growth = {"growth_bytes_per_s": 0.0, "growth_low": -1e3, "growth_high": 1e3, "leak": False}
    return {**sizes, "uss_steady_bytes": int(rss_mb * 0.9e6), **growth, "reasons": {}}


def threshold_json(reached: bool, steps: int, episodes: int, end_s: float) -> dict[str, Any]:
    if not reached:
        return {"reached": False, "step": None, "episode": None, "time_ns": None}
    return {"reached": True, "step": steps, "episode": episodes, "time_ns": nanoseconds(end_s)}


COUNTERS = ("instructions", "cycles", "cache_references", "cache_misses", "instructions_per_cycle")
CPU_FIGURES = {
    "context_switches": 1200,
    "context_switches_voluntary": 1000,
    "context_switches_involuntary": 200,
    "threads_peak": 3,
    "threads_busy_mean": 1.0,
    "threads_busy_peak": 2,
    "threads_runnable_mean": 0.98,
    "threads_runnable_peak": 1.1,
    "threads_competing_mean": 0.98,
    "oversubscribed_share": 0.0,
    **dict.fromkeys(COUNTERS),
    "reasons": dict.fromkeys(COUNTERS, "no hardware counters here"),
}
ENERGY_FIGURES = ("cpu_joules", "gpu_joules", "total_joules", "to_threshold_joules")


def outcome_json(trial: dict[str, Any], status: str, reason: str, message: str) -> dict[str, Any]:
    return {
        "schema": schema.SCHEMA_VERSION,
        "trial": trial["trial"],
        "attempt": 1,
        "status": status,
        "reason": reason,
        "message": message,
        "log_tail": None,
        "exit_code": None,
        "signal": None,
        "started_at": "2026-01-02T03:04:05+00:00",
        "wall_s": None,
        "cpu_s": None,
        "peak_rss_bytes": None,
        "baseline_rss_bytes": None,
        "cpu": CPU_FIGURES,
        "gpu": None,
        "energy": dict.fromkeys(ENERGY_FIGURES)
        | {"reasons": dict.fromkeys(ENERGY_FIGURES, "no counter here")},
        "machine": {"cpu_percent": 51.0, "memory_percent": 20.0, "idle_cpu_percent": 1.5}
        | {"idle_memory_percent": 18.0, "reasons": {}},
        "reasons": {"gpu": "the trial runs on the CPU"},
        "warnings": [],
        "affinity": {"worker": [0], "probe": [1]},
        "probe": {"samples": 100, "watched": 1, "cpu_s": 0.02, "core_percent": 0.3},
        "noise": {
            "calibration_ns": 1_000_000,
            "calibration_spread": 0.01,
            "steal_percent": 0.0,
            "foreign_cpu_percent": 1.5,
            "score": 0.02,
        },
        "result": None,
    }


def write_failure(home: Path, trial: dict[str, Any], reason: str) -> None:
    message = {
        "absent": f"toolchain {trial['framework']} is not built: run `rldyno setup {trial['framework']}`",
        "crashed": "the worker exited with code 1",
    }.get(reason, f"the worker was {reason}")
    log = (
        "Traceback (most recent call last):\nRuntimeError: </script><b>boom</b>"
        if reason != "absent"
        else None
    )
    write_json(
        home / schema.OUTCOME_FILE,
        outcome_json(trial, "failed", reason, message)
        | {"exit_code": 1, "log_tail": log, "wall_s": None if reason == "absent" else 1.2},
    )


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(value))
