"""A whole session with a launcher that starts no process: the steps, continuing, failures."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from rldyno.errors import Problem
from rldyno.launch.launcher import EndedTrial, PreparedTrial, RunningTrial
from rldyno.records.directory import ResultsDirectory
from rldyno.records.files import owner, write_json
from rldyno.records.manifest import Task
from rldyno.records.outcome import Noise, Outcome
from rldyno.records.trial_records import read_trial
from rldyno.records.trial_state import trial_state
from rldyno.session.session import Options, Session
from rldyno_rig.result_file import WorkerResult

STUDY = """
contestants = "numpy:eager"
algorithms = "dqn"
environments = "CartPole-v1"
seeds = 3
[budget]
steps = 300
"""


class FakeLauncher:
    """Each trial ends when it is waited for, with the outcome that `outcomes` gives for its seed."""

    def __init__(self, outcomes: dict[int, Outcome | None] | None = None) -> None:
        self.outcomes = outcomes or {}
        self.running_trials: list[RunningTrial] = []
        self.started: list[int] = []
        self.stopped = False

    def has_room(self, trial: PreparedTrial) -> bool:
        return not self.running_trials

    def start(self, trial: PreparedTrial) -> None:
        self.started.append(trial.file.seed)
        self.running_trials.append(RunningTrial(trial))

    def running(self) -> Sequence[RunningTrial]:
        return self.running_trials

    def wait(self, timeout_s: float) -> list[EndedTrial]:
        trial = self.running_trials.pop().trial
        seed = trial.file.seed
        outcome = self.outcomes.get(seed, done(seed))
        if outcome is not None:
            write_json(trial.directory / "outcome.json", outcome.to_json())
        return [EndedTrial(trial, 1.0, 0 if outcome else 9, "" if outcome else "no such CPU")]

    def stop(self) -> None:
        self.stopped = True


def done(seed: int) -> Outcome:
    return Outcome(
        status="done",
        reason="steps",
        wall_s=2.0,
        noise=Noise(host="here", calibration_ns=1000 - seed, score=0.0),
        result=WorkerResult("steps", steps=300, train_start_ns=10**9, train_ns=10**9),
    )


FAILED = Outcome(status="failed", reason="crashed", message="ValueError: x", log_tail="Traceback\nValueError")


class Lab:
    def __init__(self, folder: Path) -> None:
        self.study = folder / "study.toml"
        self.study.write_text(STUDY)
        self.directory = ResultsDirectory(folder / "out")
        self.printed = ""

    def run(self, launcher: FakeLauncher, study: Path | None = None, **options: Any) -> bool:
        stream = io.StringIO()
        quick = {"verify": False, "limits": False, "report": False, "out": self.directory.root}
        chosen = Options(**{**quick, **options}, overrides={"numpy": Path(sys.executable)})
        try:
            return Session(study or self.study, chosen, Console(file=stream, width=200), launcher).run()
        finally:
            self.printed = stream.getvalue()

    def trials(self) -> list[Path]:
        return [self.directory.trial(trial) for trial in self.directory.read_manifest().trials]


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


@pytest.mark.slow
def test_a_session_runs_every_trial_once_and_answers(lab: Lab) -> None:
    launcher = FakeLauncher()
    assert lab.run(launcher)
    assert sorted(launcher.started) == [0, 1, 2]
    assert launcher.stopped
    assert all(trial_state(trial).done for trial in lab.trials())
    assert lab.directory.study.read_text() == STUDY
    assert "[3/3]" in lab.printed
    assert "numpy:eager" in lab.printed
    again = FakeLauncher()
    assert lab.run(again)
    assert again.started == []
    assert "all 3 trials have already ended" in lab.printed
    assert len(lab.directory.read_manifest().resumed_at) == 1


def test_what_a_killed_run_left_in_the_cache_is_removed(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The history of speeds is written after each trial: a run that finds all done writes none."""
    monkeypatch.setenv("RLDYNO_CACHE_DIR", str(tmp_path / "cache"))
    lab.run(FakeLauncher())
    with subprocess.Popen(["true"]) as ended:
        pass
    left = tmp_path / "cache" / f".rates.json.{owner().partition('-')[0]}-{ended.pid}.tmp"
    left.write_text("{")
    assert lab.run(FakeLauncher())
    assert not left.exists()


def test_each_trial_learns_what_the_ones_before_it_showed(lab: Lab) -> None:
    launcher = FakeLauncher()
    lab.run(launcher)
    known = {}
    for seed, trial in zip(launcher.started, lab.trials(), strict=True):
        file = read_trial(trial)
        assert file.conditions.host == lab.directory.read_manifest().host
        assert file.conditions.best_calibration_ns == known
        known = {"here": min(1000 - seed, known.get("here", 1000))}


@pytest.mark.slow
def test_failed_trials_are_reported_and_run_again(lab: Lab) -> None:
    assert not lab.run(FakeLauncher({1: FAILED}))
    assert "failed: crashed: ValueError: x" in lab.printed
    assert "  | ValueError" in lab.printed
    assert "1 of 3 trials are not done; the same command runs them again" in lab.printed
    kept = FakeLauncher()
    assert not lab.run(kept, keep_failed=True)
    assert kept.started == []
    again = FakeLauncher()
    assert lab.run(again)
    assert again.started == [1]
    assert "2 of 3 trials have already ended; 1 to run" in lab.printed


def test_a_trial_without_an_outcome_counts_as_failed(lab: Lab) -> None:
    assert not lab.run(FakeLauncher({2: None}))
    assert "ended without an outcome: no such CPU" in lab.printed


def test_another_study_in_the_same_directory_is_refused(lab: Lab) -> None:
    lab.run(FakeLauncher())
    lab.study.write_text(STUDY.replace("seeds = 3", "seeds = 4"))
    with pytest.raises(Problem, match="the study has changed") as caught:
        lab.run(FakeLauncher())
    assert caught.value.detail == "seeds: 3 → 4"
    more = FakeLauncher()
    assert lab.run(more, amend=True)
    assert more.started == [3]
    (amendment,) = lab.directory.read_manifest().amended
    assert amendment.changes == ("seeds: 3 → 4",)
    assert amendment.text_before == STUDY
    assert amendment.trials_ended == 3


def test_an_edited_copy_of_the_study_changes_nothing(lab: Lab) -> None:
    lab.run(FakeLauncher())
    copy = lab.directory.study
    copy.write_text(STUDY.replace("seeds = 3", "seeds = 9"))
    for amend in (False, True):
        with pytest.raises(Problem, match="was edited") as caught:
            lab.run(FakeLauncher(), study=copy, amend=amend)
        assert caught.value.fix is not None
        assert f"rldyno run {lab.directory.root}" in caught.value.fix
    again = FakeLauncher()
    assert lab.run(again)
    assert again.started == []
    assert "was edited" in lab.printed
    assert copy.read_text() == STUDY
    assert "seeds = 9" in copy.with_name("study.edited.toml").read_text()
    assert lab.directory.read_manifest().amended == ()


def test_a_results_directory_is_the_study_that_ran_in_it(lab: Lab) -> None:
    lab.run(FakeLauncher({1: FAILED}))
    lab.study.unlink()
    lab.directory.study.write_text("this is no study")
    again = FakeLauncher()
    assert lab.run(again, study=lab.directory.root, out=None)
    assert again.started == [1]
    manifest = lab.directory.read_manifest()
    assert manifest.study_text == STUDY
    assert manifest.study_path == "study.toml"


@pytest.mark.slow
def test_seeds_of_the_command_line_are_an_amendment(lab: Lab) -> None:
    lab.run(FakeLauncher())
    more = FakeLauncher()
    assert lab.run(more, study=lab.directory.root, seeds="5")
    assert sorted(more.started) == [3, 4]
    manifest = lab.directory.read_manifest()
    assert [amendment.changes for amendment in manifest.amended] == [("seeds: 3 → 5",)]
    assert manifest.study_text == lab.directory.study.read_text() == STUDY.replace("seeds = 3", "seeds = 5")
    with pytest.raises(Problem, match="the study has changed") as caught:
        lab.run(FakeLauncher())
    assert caught.value.detail == "seeds: 5 → 3"
    with pytest.raises(Problem, match="the study has changed"):
        lab.run(FakeLauncher(), seeds="4")
    assert lab.run(FakeLauncher(), seeds="5")
    assert len(lab.directory.read_manifest().amended) == 1


def test_a_record_from_before_the_manifest_kept_the_study(lab: Lab) -> None:
    lab.run(FakeLauncher())
    written = lab.directory.read_manifest()
    lab.directory.write_manifest(replace(written, study_text="", study_path=""))
    assert lab.run(FakeLauncher(), study=lab.directory.root)
    assert lab.directory.read_manifest().study_text == STUDY
    lab.directory.write_manifest(replace(written, study_text=""))
    lab.directory.study.write_text(STUDY.replace("seeds = 3", "seeds = 9"))
    for given in (lab.directory.root, lab.directory.study):
        with pytest.raises(Problem, match="not the study that ran"):
            lab.run(FakeLauncher(), study=given)


@pytest.mark.slow
def test_an_impossible_environment_is_refused_before_anything_is_written(lab: Lab) -> None:
    lab.study.write_text(STUDY.replace("CartPole-v1", "NoSuch-v3"))
    launcher = FakeLauncher()
    with pytest.raises(Problem, match="NoSuch-v3 cannot run") as caught:
        lab.run(launcher, verify=True)
    assert "doesn't exist" in str(caught.value.detail)
    assert launcher.started == []
    assert not lab.directory.manifest.exists()


def test_tasks_without_tuned_values_are_printed_and_kept(lab: Lab) -> None:
    lab.study.write_text(STUDY.replace("CartPole-v1", "CartPole-v0"))
    lab.run(FakeLauncher())
    assert "DQN is not tuned for CartPole-v0" in lab.printed
    assert lab.directory.read_manifest().untuned == (Task("dqn", "CartPole-v0"),)
