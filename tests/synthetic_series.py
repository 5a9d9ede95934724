"""The time series of a synthetic trial: episodes, progress and samples as CSV files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rldyno.probe.metrics import sample_columns
from rldyno_rig import schema

if TYPE_CHECKING:
    from synthetic import Contestant, Shape

STOP_EPISODES = 20


def write_episodes(
    home: Path,
    speed: float,
    start_s: float,
    learns: bool,
    needs: float,
    rng: np.random.Generator,
    shape: Shape,
) -> tuple[int, int, float, bool, float]:
    """Logistic learning, stopped at the threshold: (steps, episodes, end, reached, final return)."""
    midpoint = needs * shape.steps * rng.uniform(0.12, 0.18)
    ceiling = 500.0 if learns else 300.0
    rows: list[str] = []
    returns: list[float] = []
    step, reached = 0, False
    while step < shape.steps and not reached:
        expected = 20 + (ceiling - 20) / (1 + np.exp(-(step - midpoint) / (midpoint / 5)))
        length = int(np.clip(rng.normal(expected, 0.02 * expected), 8, ceiling))
        step += length
        returns.append(float(length))
        time_ns = nanoseconds(start_s + step / speed)
        rows.append(f"{len(returns)},0,{step},{time_ns},{float(length)},{length},1")
        if shape.stop_return is not None:
            reached = (
                len(returns) >= STOP_EPISODES
                and float(np.mean(returns[-STOP_EPISODES:])) >= shape.stop_return
            )
    write_csv(home / schema.EPISODES_FILE, schema.EPISODE_COLUMNS, rows)
    return step, len(returns), start_s + step / speed, reached, float(np.mean(returns[-100:]))


def write_progress(
    home: Path, speed: float, start_s: float, end_s: float, phases: np.ndarray, communicating: float | None
) -> None:
    """`communicating`: seconds; None for one worker."""
    rows = []
    for second in np.arange(start_s + 1, end_s, 1.0):
        share = (second - start_s) / (end_s - start_s)
        step = int((second - start_s) * speed)
        parts = ",".join(str(nanoseconds(phase * share)) for phase in phases)
        last = "" if communicating is None else nanoseconds(communicating * share)
        rows.append(
            f"{nanoseconds(second)},{step},{step // 50},{step // 4},{100 * share},0.01,{parts},{last}"
        )
    write_csv(home / schema.PROGRESS_FILE, schema.PROGRESS_COLUMNS, rows)


SAMPLE = {
    "time_ns": "{time}",
    "cpu_user_ns": "{cpu}",
    "cpu_system_ns": "{system}",
    "rss_bytes": "{rss}",
    "processes": "1",
    "threads": "3",
    "machine_cpu_percent": "51.0",
    "machine_memory_percent": "20.0",
}
GPU_SAMPLE = {
    "gpu_percent": "{gpu:.1f}",
    "gpu_memory_bytes": "700000000",
    "gpu_power_w": "{power:.1f}",
    "energy_joules": "{energy:.2f}",
}


def write_samples(
    home: Path,
    trial: dict[str, Any],
    contestant: Contestant,
    start_s: float,
    end_s: float,
    rng: np.random.Generator,
) -> None:
    hz = trial["sample_hz"]
    known = SAMPLE | (GPU_SAMPLE if trial["device"] != "cpu" else {})
    line = ",".join(known.get(name, "") for name in sample_columns())
    rows = []
    for moment in np.arange(1 / hz, end_s, 1 / hz):
        rss = int(1e6 * contestant.rss_mb * (0.7 + 0.3 * min(1, moment / start_s / 2)) * rng.normal(1, 0.002))
        training = moment > start_s
        rows.append(
            line.format(
                time=nanoseconds(moment),
                cpu=nanoseconds(0.97 * moment),
                system=nanoseconds(0.01 * moment),
                rss=rss,
                gpu=35.0 if training else 0.0,
                power=180.0 if training else 75.0,
                energy=75 * min(moment, start_s) + 180 * max(0.0, moment - start_s),
            )
        )
    write_csv(home / schema.SAMPLES_FILE, sample_columns(), rows)


def nanoseconds(seconds: float) -> int:
    return int(seconds * 1e9)


def write_csv(path: Path, columns: Sequence[str], rows: Sequence[str]) -> None:
    path.write_text("\n".join([",".join(columns), *rows]) + "\n")
