"""A worker whose clock moves only by known waits: every nanosecond is booked on the phase it belongs to."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from fakes import make_trial, outcome_of, rldyno

from rldyno_rig import hyper, schema
from rldyno_rig.algorithms.rainbow import Rainbow

STEPS = 200
SECONDS = {"environment": 0.003, "transfer": 0.0005, "act": 0.002, "update": 0.005, "read": 0.001}
"""Of one call, as tests/workers/sleepy/known_time.py has them."""


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> Path:
    values = Rainbow(hidden=(8,), atoms=5, learning_starts=20, batch_size=8, train_every=1)
    directory = make_trial(
        tmp_path_factory.mktemp("sleepy"),
        "sleeps",
        algorithm="rainbow",
        hyper=hyper.to_json(values),
        budget={**dict.fromkeys(("episodes", "wall_s", "stop_return", "stop_episodes")), "steps": STEPS},
    )
    done = rldyno("trial", directory)
    assert done.returncode == 0, done.stdout + (directory / schema.LOG_FILE).read_text()
    return directory


def waited(trial: Path, part: str, start_ns: float, end_ns: float) -> tuple[int, int]:
    """(number of waits, their nanoseconds) that began between two moments since the spawn."""
    waits = json.loads((trial / "waits.json").read_text())
    took = [ns for name, begin, ns in waits if name == part and start_ns <= begin < end_ns]
    return len(took), sum(took)


def test_phases_of_the_loop(trial: Path) -> None:
    result = outcome_of(trial)["result"]
    start, length, updates = result["train_start_ns"], result["train_ns"], result["updates"]
    assert (result["steps"], updates) == (STEPS, pytest.approx(STEPS - 20, abs=4))
    calls = {
        "environment": STEPS,
        "act": STEPS,
        "transfer": STEPS + updates,
        "update": updates,
        "read": updates,
    }
    for phase, seconds in SECONDS.items():
        number, truth = waited(trial, phase, start, start + length)
        assert number == calls[phase]
        assert result["phases_ns"][phase] == truth == number * round(seconds * 1e9), phase
    assert sum(result["phases_ns"].values()) == length


def test_phases_over_time(trial: Path) -> None:
    result = outcome_of(trial)["result"]
    with (trial / schema.PROGRESS_FILE).open(newline="") as stream:
        rows = [
            {name: float(value or "nan") for name, value in row.items()} for row in csv.DictReader(stream)
        ]
    assert len(rows) >= 2
    for row in rows:
        booked = sum(row[f"{phase}_ns"] for phase in schema.PHASES)
        assert booked == row["time_ns"] - result["train_start_ns"], "every nanosecond so far has its phase"
        for phase in SECONDS:
            _, truth = waited(trial, phase, result["train_start_ns"], row["time_ns"])
            assert row[f"{phase}_ns"] == truth, phase
    assert {phase: int(rows[-1][f"{phase}_ns"]) for phase in schema.PHASES} == result["phases_ns"]


def test_parts_of_the_start(trial: Path) -> None:
    result = outcome_of(trial)["result"]
    start = result["train_start_ns"]
    for part in ("import", "build"):
        assert result["startup_ns"][part] == waited(trial, part, 0, start)[1], part
    # Three throw-away rounds: an act and an update, each with its transfer, and a read.
    warm_up = {part: waited(trial, part, 0, start) for part in ("transfer", "act", "update", "read")}
    assert {part: number for part, (number, _) in warm_up.items()} == {
        "transfer": 6,
        "act": 3,
        "update": 3,
        "read": 3,
    }
    compiled = sum(result["startup_ns"][part] for part in schema.STARTUP[:-1])
    first = sum(waited(trial, part, 0, compiled)[1] for part in warm_up)
    assert result["startup_ns"]["first_call"] == first
    assert {waited(trial, part, compiled, start)[0] for part in ("act", "update", "read")} == {2}
    assert result["startup_ns"]["warm"] == sum(took for _, took in warm_up.values()) - first
    assert sum(result["startup_ns"].values()) == start
