"""A trial directory is complete: a copy of it, alone, runs with `rldyno trial DIR`."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from rldyno.launch.launcher import EndedTrial, PreparedTrial
from rldyno.machine.facts import host_sha256
from rldyno.records.calibrations import best_calibrations
from rldyno.records.directory import ResultsDirectory
from rldyno.records.machine_facts import MachineFacts
from rldyno.records.manifest import Manifest
from rldyno.records.outcome import Noise, Outcome
from rldyno.records.trial_records import read_outcome, read_trial
from rldyno.session.eta import Eta
from rldyno.session.following import Follower, KnownConditions
from rldyno.session.preparation import prepare
from rldyno.session.progress import PlainDisplay
from rldyno.study.file import load_study
from rldyno.study.plan import make_plan
from rldyno.toolchains.resolve import Interpreter

STUDY = """
contestants = "numpy:eager"
algorithms = "dqn"
environments = "CartPole-v1"
seeds = 2
[budget]
steps = 300
[hyper.dqn]
learning_starts = 200
"""
MANIFEST = Manifest(machine=MachineFacts(host_sha256()), idle_cpu_percent=1.5)


@pytest.fixture
def directory(tmp_path: Path) -> ResultsDirectory:
    directory = ResultsDirectory(tmp_path / "out")
    directory.trials.mkdir(parents=True)
    directory.write_manifest(MANIFEST)
    return directory


@pytest.fixture
def prepared(tmp_path: Path, directory: ResultsDirectory) -> list[PreparedTrial]:
    (tmp_path / "study.toml").write_text(STUDY)
    plan = make_plan(load_study(tmp_path / "study.toml"))
    numpy = Interpreter("numpy", Path(sys.executable), "given", "3.11", {}, None)
    return prepare(directory, plan, {"numpy": numpy}, {}, False, Console(file=io.StringIO()))


def follower(directory: ResultsDirectory) -> Follower:
    console = Console(file=io.StringIO())
    return Follower(PlainDisplay(console), 2, Eta({}), KnownConditions(directory, MANIFEST))


@pytest.mark.slow
def test_a_copied_trial_directory_runs_alone(
    tmp_path: Path, directory: ResultsDirectory, prepared: list[PreparedTrial]
) -> None:
    started = follower(directory).starting(prepared[0])
    alone = tmp_path / "elsewhere"
    started.directory.rename(alone)
    command = [sys.executable, "-m", "rldyno", "trial", str(alone)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    outcome = read_outcome(alone)
    assert outcome.done
    assert outcome.trial == started.id
    machine = outcome.sections["machine"]
    assert machine is not None
    assert machine["idle_cpu_percent"] == 1.5
    assert outcome.noise is not None
    assert outcome.noise.host == host_sha256()
    assert outcome.noise.calibration_slowdown is None
    assert {entry.name for entry in tmp_path.iterdir()} == {"out", "study.toml", "elsewhere"}


def test_later_trials_know_the_best_calibration_so_far(
    directory: ResultsDirectory, prepared: list[PreparedTrial]
) -> None:
    watcher = follower(directory)
    first = watcher.starting(prepared[0])
    assert first.file.conditions.best_calibration_ns == {}
    ended = Outcome(trial=first.id, status="done", noise=Noise(host="here", calibration_ns=900, score=0.0))
    (first.directory / "outcome.json").write_text(json.dumps(ended.to_json()))
    watcher.ended(EndedTrial(first, 1.0, 0, ""))
    second = watcher.starting(prepared[1])
    assert read_trial(second.directory).conditions == second.file.conditions
    assert second.file.conditions.best_calibration_ns == {"here": 900}
    assert best_calibrations(directory.root) == {"here": 900}
    assert follower(directory).starting(prepared[0]).file.conditions.best_calibration_ns == {"here": 900}
