"""Event files, read back record by record with their checksums."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from event_files import read_events
from rldyno.cli import app
from rldyno.results import event_file, event_points, tensorboard
from rldyno_rig import schema
from rldyno_rig.trial_file import Conditions, TrialFile
from synthetic import NUMPY, TORCH, Shape, write_results

SHAPE = Shape(contestants=[NUMPY, TORCH], algorithms=["dqn"], seeds=2, sample_hz=2, steps=40_000)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = write_results(tmp_path_factory.mktemp("tensorboard") / "results", SHAPE)
    tensorboard.write_all(root)
    return root


def test_every_trial_is_a_run_of_its_cell(directory: Path):
    runs = sorted(path.parent for path in (directory / "tensorboard").rglob("*tfevents*"))
    assert [run.name for run in runs] == ["s0", "s1", "s0", "s1"]
    assert len({run.parent for run in runs}) == 2


def test_the_scalars_are_the_records(directory: Path):
    (home, *_) = sorted((directory / "trials").iterdir())
    asked = json.loads((home / schema.TRIAL_FILE).read_text())
    outcome = json.loads((home / schema.OUTCOME_FILE).read_text())
    cell = event_file.cell_name(home.name, TrialFile.read(home))
    folder = directory / "tensorboard" / cell / f"s{asked['seed']}"
    first, *events = read_events(next(folder.iterdir()))
    assert first.file_version == "brain.Event:2"
    epoch = datetime.fromisoformat(outcome["started_at"]).timestamp()
    seen = [
        (value.tag, event.step, value.simple_value, event.wall_time)
        for event in events
        for value in event.summary.value
    ]
    with (home / schema.EPISODES_FILE).open() as stream:
        episodes = list(csv.DictReader(stream))
    returns = [entry[1:] for entry in seen if entry[0] == "return/episode"]
    assert returns == [
        (int(row["step"]), float(np.float32(row["return"])), pytest.approx(epoch + int(row["time_ns"]) / 1e9))
        for row in episodes
    ]
    tags = {tag for tag, *_ in seen}
    assert {"loss", "return/mean", "speed/steps_per_s", "resources/cpu_percent"} <= tags
    assert {f"phases/{phase}" for phase in schema.PHASES} <= tags
    assert "resources/rss_bytes" in tags
    for event in events[len(episodes) :]:
        shares = [value.simple_value for value in event.summary.value if value.tag.startswith("phases/")]
        assert sum(shares) == pytest.approx(1.0, abs=1e-5)


def test_what_is_there_is_not_written_again(directory: Path):
    assert tensorboard.write_all(directory)[:2] == (0, 4)


def test_a_trial_that_was_run_again_replaces_its_events(tmp_path: Path):
    root = write_results(tmp_path / "results", SHAPE)
    tensorboard.write_all(root)
    (home, *_) = sorted((root / "trials").iterdir())
    outcome = json.loads((home / schema.OUTCOME_FILE).read_text())
    later = datetime.fromisoformat(outcome["started_at"]).replace(year=2031).isoformat()
    (home / schema.OUTCOME_FILE).write_text(json.dumps({**outcome, "started_at": later}))
    assert tensorboard.write_all(root)[:2] == (1, 3)
    assert len(list((root / "tensorboard").rglob("*tfevents*"))) == 4


def test_a_damaged_record_costs_only_its_own_trial(tmp_path: Path):
    root = write_results(tmp_path / "results", SHAPE)
    (home, *_) = sorted((root / "trials").iterdir())
    (home / schema.SAMPLES_FILE).write_text("nonsense\n")
    done = CliRunner().invoke(app, ["tensorboard", str(root)])
    assert done.exit_code == 0, done.output
    assert "3 event files written" in done.output
    assert home.name in done.stderr
    assert not list((root / "tensorboard").rglob(".*"))


def test_means_over_intervals():
    times, values = np.array([1.0, 2.0, 3.0, 4.0]), np.array([10.0, np.nan, 30.0, 50.0])
    found = event_points.means(times, values, np.array([0.0, 1.0, 2.0]), np.array([1.0, 2.0, 4.0]))
    np.testing.assert_array_equal(found, [10.0, np.nan, 40.0])


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ((1, 0, 0.034), "1 event file written, 34 ms each"),
        ((2, 1, 0.05), "2 event files written, 25 ms each; 1 was there already"),
        ((0, 4, 0.001), "0 event files written; 4 were there already"),
    ],
)
def test_what_writing_cost_is_said(written: tuple[int, int, float], said: str):
    assert tensorboard.EventFiles(*written).sentence == said


def test_what_the_lab_knew_before_a_trial_does_not_name_its_cell(tmp_path: Path) -> None:
    root = write_results(tmp_path / "r", Shape(contestants=[NUMPY], algorithms=["dqn"], seeds=1))
    (home,) = (root / "trials").iterdir()
    file = TrialFile.read(home)
    later = replace(file, conditions=Conditions(best_calibration_ns={"host": 5}), backend="numpy_")
    assert event_file.cell_name(home.name, later) == event_file.cell_name(home.name, file)
    assert event_file.cell_name(home.name, replace(file, cores=7)) != event_file.cell_name(home.name, file)


def test_what_a_record_says_leads_no_event_file_elsewhere(tmp_path: Path) -> None:
    root = write_results(tmp_path / "r", Shape(contestants=[NUMPY], algorithms=["dqn"], seeds=1))
    path = next(root.glob("trials/*/trial.json"))
    path.write_text(json.dumps(json.loads(path.read_text()) | {"trial": "../../../away.s0.1"}))
    tensorboard.write_all(root)
    assert not list(tmp_path.glob("away*"))
    assert all(root / "tensorboard" in file.parents for file in tmp_path.rglob("*tfevents*"))
