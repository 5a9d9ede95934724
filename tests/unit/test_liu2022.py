"""liu2022's integrals and per-step figures, from files written by hand."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import polars as pl
import pytest

from report_parts import charts_by_panel, labels, material_of, tables
from rldyno.probe.metrics import sample_columns
from rldyno.results.export import export_results
from rldyno.results.integrals import NAMES
from rldyno.results.load import load_results
from rldyno_rig import schema
from synthetic import NUMPY, Shape, write_results


def write_rows(path: Path, columns: tuple[str, ...], rows: list[dict[str, object]]) -> None:
    with path.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, columns, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A run of 60 steps that ended 4.7 s after its spawn."""
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
    write_rows(trial / schema.SAMPLES_FILE, sample_columns(), samples)
    returns = (10.0, 30.0, 20.0)
    episodes: list[dict[str, object]] = [
        {"episode": n, "env": 0, "step": 20 * n, "time_ns": n * second, "return": value, "length": 20}
        for n, value in enumerate(returns, start=1)
    ]
    write_rows(trial / schema.EPISODES_FILE, schema.EPISODE_COLUMNS, episodes)
    outcome = json.loads((trial / schema.OUTCOME_FILE).read_text())
    outcome["result"]["steps"] = 60
    outcome["wall_s"] = 4.7
    (trial / schema.OUTCOME_FILE).write_text(json.dumps(outcome))
    return home


def check(use: dict[str, float]) -> None:
    # Trapezia of 1 s each, then 0.7 s at the last reading.
    cpu = (20 + 40) / 2 + (40 + 60) / 2 + 60 + (60 + 20) / 2 + 0.7 * 20
    memory = 50 + (50 + 52) / 2 + (52 + 54) / 2 + 54 + 0.7 * 54
    assert use["cpu_integral"] == pytest.approx(cpu) == pytest.approx(194)
    assert use["memory_integral"] == pytest.approx(memory) == pytest.approx(245.8)
    assert use["cpu_per_step"] == pytest.approx(cpu / 60)
    assert use["memory_per_step"] == pytest.approx(memory / 60)
    assert use["return_integral"] == 60.0


def test_a_run_reckoned_by_hand(home: Path) -> None:
    material = material_of(home)
    (use,) = material.places[0].series.values.iter_rows(named=True)
    check(use)
    shown = tables(material)["integrals-of-runs"]
    assert shown.columns[-1] == "Memory use per step, % of the machine · s / step"
    assert shown.rows == (("numpy:eager", "DQN on CartPole-v1", "60", "60.0", "194", "246", "3.23", "4.10"),)


def test_export_has_them(home: Path) -> None:
    export_results(load_results(home))
    (row,) = pl.read_parquet(home / "export/integrals.parquet").iter_rows(named=True)
    check(row)
    said = pl.read_parquet(home / "export/reasons.parquet")
    assert not set(said["column"]) & set(NAMES)


def test_what_a_short_run_lacks_is_null_and_says_why(home: Path) -> None:
    (trial,) = (home / "trials").iterdir()
    second = 1_000_000_000
    sample = {"time_ns": second // 2, "machine_memory_percent": 50, "rss_bytes": 1}
    write_rows(trial / schema.SAMPLES_FILE, sample_columns(), [sample])
    write_rows(trial / schema.EPISODES_FILE, schema.EPISODE_COLUMNS, [])
    outcome = json.loads((trial / schema.OUTCOME_FILE).read_text())
    (trial / schema.OUTCOME_FILE).write_text(json.dumps(outcome | {"wall_s": 0.6}))
    export_results(load_results(home))
    (row,) = pl.read_parquet(home / "export/integrals.parquet").iter_rows(named=True)
    assert row.pop("trial") == trial.name
    assert row.pop("memory_integral") == pytest.approx(30)
    assert row.pop("memory_per_step") == pytest.approx(0.5)
    assert set(row.values()) == {None}
    said = pl.read_parquet(home / "export/reasons.parquet")
    why = dict(said.filter(pl.col("column").is_in(list(NAMES))).select("column", "reason").iter_rows())
    assert why.keys() == row.keys()
    assert why["return_integral"] == "no episode ended"
    assert why["cpu_per_step"] == "it ended before the first reading of the whole machine"
    shown = tables(material_of(home))["integrals-of-runs"]
    assert shown.rows[0][2:-1] == ("60", "–", "–", "30.0", "–", "0.500")
    assert shown.rows[0][-1] == f"no episode ended; {why['cpu_integral']}"


@pytest.mark.slow
def test_against_cores_workers_and_gpus(tmp_path: Path) -> None:
    shape = Shape(
        contestants=[NUMPY],
        algorithms=["ppo"],
        seeds=1,
        cores=(1, 2),
        devices=("cpu", "cuda"),
        workers=(1, 2),
    )
    material = material_of(write_results(tmp_path / "r", shape))
    axes = {panel: label for panel, label in labels(material).items() if panel.startswith("axis-")}
    against = {label.rpartition(": against ")[2] for label in axes.values()}
    assert against == {"CPU cores", "workers", "GPUs, one per worker"}
    drawn = {name for panel in axes for name in charts_by_panel(material)[panel]}
    figures = {name.replace("_", "-") for name in NAMES}
    assert drawn >= {
        f"{axis}-{name}" for axis in ("cpu-cores", "workers", "gpus-one-per-worker") for name in figures
    }
