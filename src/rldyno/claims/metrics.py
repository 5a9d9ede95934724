"""What a claim can be about: one figure per run."""

from __future__ import annotations

from dataclasses import dataclass

from rldyno.records.files import Json


@dataclass(frozen=True)
class Measure:
    words: str
    column: str | None = None
    """Of the results table; None for memory growth, which is read from the run's samples."""
    unit: str = ""
    scale: float = 1.0
    more_is_better: bool = False
    ends: str | None = None
    """For figures that a run may never reach: the column with the end of the watch, which censors it."""
    absent: str | None = None
    """What to say when no run has it, where that can be said better than "was not measured"."""


THRESHOLD_NEEDED = "needs a threshold: give the study's [budget] a stop rule"
METRICS: dict[str, Measure] = {
    "time": Measure("time to the threshold", "threshold_s", "s", ends="watched_s", absent=THRESHOLD_NEEDED),
    "steps": Measure("steps to the threshold", "threshold_steps", ends="steps", absent=THRESHOLD_NEEDED),
    "episodes": Measure(
        "episodes to the threshold", "threshold_episodes", ends="episodes", absent=THRESHOLD_NEEDED
    ),
    "reached": Measure(
        "share of runs that reach the threshold",
        "threshold_reached",
        more_is_better=True,
        absent=THRESHOLD_NEEDED,
    ),
    "return": Measure("return at the end", "final_return", more_is_better=True),
    "throughput": Measure("speed", "steps_per_s", "steps/s", more_is_better=True),
    "step_time": Measure("training time per step", "step_s", "µs", 1e6),
    "update_rate": Measure("updates per second", "updates_per_s", "1/s", more_is_better=True),
    "act_rate": Measure(
        "inference calls per second",
        "acts_per_s",
        "1/s",
        more_is_better=True,
        absent="needs networks timed alone: rldyno nets -o DIR",
    ),
    "wall": Measure("time of the whole run", "wall_s", "s"),
    "startup": Measure("start-up", "startup_s", "s"),
    "cpu": Measure("CPU use", "cpu_percent", "% of a core"),
    "cpu_time": Measure("CPU time", "cpu_s", "s"),
    "memory": Measure("peak memory", "peak_rss_bytes", "MB", 1e-6),
    "memory_growth": Measure("memory late in training over memory early in it", unit="×"),
    "gpu": Measure(
        "GPU utilisation", "gpu_utilisation_percent", "%", more_is_better=True, absent="needs a GPU"
    ),
    "gpu_memory": Measure("peak GPU memory", "gpu_memory_peak_bytes", "MB", 1e-6, absent="needs a GPU"),
    "energy": Measure("energy", "energy_joules", "J", absent="energy is not readable here"),
}


def execution_of(mode: str) -> str:
    return "eager" if mode == "eager" else "lazy"


def row_columns(row: Json) -> Json:
    """Columns that follow from others: what a mode does, the network's kind, seconds per step."""
    rate = row.get("steps_per_s")
    return {
        "execution": execution_of(row["mode"]),
        "step_s": 1 / rate if rate else None,
    }
