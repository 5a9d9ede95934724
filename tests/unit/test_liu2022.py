"""liu2022's integrals and per-step figures, from files written by hand."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from rldyno.report.series import read_series
from rldyno.results import load_results
from rldyno_rig import schema
from synthetic import NUMPY, Shape, write_results


def write_rows(path: Path, columns: tuple[str, ...], rows: list[dict[str, object]]) -> None:
    with path.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, columns, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def test_a_run_reckoned_by_hand(tmp_path: Path) -> None:
    home = write_results(tmp_path / "r", Shape(contestants=[NUMPY], algorithms=["dqn"], seeds=1))
    (trial,) = (home / "trials").iterdir()
    # Machine-wide readings once a second, a sample without them in between, the last sample at 4.5 s.
    readings = {0: (20, 50), 1: (40, 50), 2: (60, 52), 3: (60, 54), 4: (20, 54)}
    second = 1_000_000_000
    samples: list[dict[str, object]] = [
        {"time_ns": s * second, "machine_cpu_percent": cpu, "machine_memory_percent": memory, "rss_bytes": 1}
        for s, (cpu, memory) in readings.items()
    ]
    samples += [{"time_ns": 4 * second + second // 2, "rss_bytes": 1}]
    write_rows(trial / schema.SAMPLES_FILE, schema.SAMPLE_COLUMNS, samples)
    returns = (10.0, 30.0, 20.0)
    episodes: list[dict[str, object]] = [
        {"episode": n, "env": 0, "step": 20 * n, "time_ns": n * second, "return": value, "length": 20}
        for n, value in enumerate(returns, start=1)
    ]
    write_rows(trial / schema.EPISODES_FILE, schema.EPISODE_COLUMNS, episodes)
    outcome = json.loads((trial / schema.OUTCOME_FILE).read_text())
    outcome["result"]["steps"] = 60
    (trial / schema.OUTCOME_FILE).write_text(json.dumps(outcome))

    results = load_results(home)
    (use,) = read_series(results, results.trials, window=20).use.iter_rows(named=True)
    # Trapezia of 1 s each, then half a second at the last reading.
    cpu = (20 + 40) / 2 + (40 + 60) / 2 + 60 + (60 + 20) / 2 + 20 / 2
    memory = 50 + (50 + 52) / 2 + (52 + 54) / 2 + 54 + 54 / 2
    assert use["cpu_integral"] == pytest.approx(cpu) == 190
    assert use["memory_integral"] == pytest.approx(memory) == 235
    assert use["cpu_per_step"] == pytest.approx(cpu / 60)
    assert use["memory_per_step"] == pytest.approx(memory / 60)
    assert use["return_integral"] == 60.0
