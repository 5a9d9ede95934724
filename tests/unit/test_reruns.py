"""Repeating noisy trials, with a launcher that hands out scores."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from rldyno.cli import app
from rldyno.errors import Problem
from rldyno.launch.launcher import PreparedTrial
from rldyno.records.attempts import next_attempt
from rldyno.records.trial_records import read_trial
from rldyno.records.trial_state import trial_state
from rldyno.session.reruns import NoiseLimit, read_attempts, run_until_quiet
from rldyno_rig.contestant import Contestant
from rldyno_rig.trial_file import Budget, TrialFile


class Launcher:
    """Every launch of a trial gives it the next of its scores; None is a failure."""

    def __init__(self, scores: dict[str, list[float | None]]) -> None:
        self.left = {name: iter(values) for name, values in scores.items()}
        self.rounds: list[list[str]] = []

    def __call__(self, trials: list[PreparedTrial]) -> None:
        self.rounds.append([trial.id for trial in trials])
        for trial in trials:
            run_once(trial.directory, self.left[trial.id])


def trial_file(directory: Path) -> TrialFile:
    return TrialFile(
        trial=directory.name,
        contestant=Contestant("numpy", "eager"),
        algorithm="dqn",
        environment="CartPole-v1",
        seed=0,
        hyper={},
        budget=Budget(steps=1),
    )


def prepared(directories: Iterable[Path]) -> list[PreparedTrial]:
    return [PreparedTrial(trial_file(directory), directory) for directory in directories]


def run_once(directory: Path, scores: Iterator[float | None]) -> None:
    directory.mkdir(exist_ok=True)
    (directory / "trial.json").write_text(json.dumps(trial_file(directory).to_json()))
    attempt, score = next_attempt(directory), next(scores)
    (directory / "samples.csv").write_text(f"{attempt}")
    outcome = {"attempt": attempt, "status": "failed" if score is None else "done", "noise": {"score": score}}
    (directory / "outcome.json").write_text(json.dumps(outcome))


def repeated(
    tmp_path: Path, limit: NoiseLimit, **scores: list[float | None]
) -> tuple[Launcher, dict[str, tuple[int, str]], str]:
    """(launcher, trial → (attempt that counts, attempt its files are of), what was printed)."""
    launcher = Launcher(scores)
    directories = [tmp_path / name for name in scores]
    for directory in directories:
        run_once(directory, launcher.left[directory.name])
    printed = io.StringIO()
    run_until_quiet(prepared(directories), limit, launcher, Console(file=printed, width=200))
    counts = {
        directory.name: (
            json.loads((directory / "outcome.json").read_text())["attempt"],
            (directory / "samples.csv").read_text(),
        )
        for directory in directories
    }
    return launcher, counts, printed.getvalue()


def test_only_noisy_trials_are_repeated_until_they_are_quiet(tmp_path: Path) -> None:
    launcher, counts, printed = repeated(
        tmp_path, NoiseLimit(0.1), a=[0.05], b=[0.5, 0.2, 0.09], c=[0.3, 0.0]
    )
    assert launcher.rounds == [["b", "c"], ["b"]]
    assert counts == {"a": (1, "1"), "b": (3, "3"), "c": (2, "2")}
    assert read_attempts(tmp_path / "b").aside == {1: 0.5, 2: 0.2}
    assert "2 trials were noisier than 0.1: running again" in printed
    assert "2 trials were run more than once" in printed
    assert "stayed above" not in printed


def test_the_quietest_counts_when_none_is_quiet(tmp_path: Path) -> None:
    launcher, counts, printed = repeated(tmp_path, NoiseLimit(0.1, 3), a=[0.5, 0.2, 0.4])
    assert launcher.rounds == [["a"], ["a"]]
    assert counts == {"a": (2, "2")}
    assert "noise: a stayed above 0.1 in 3 attempts; the quietest counts, with 0.2" in printed
    assert read_attempts(tmp_path / "a").aside == {1: 0.5, 3: 0.4}


def test_many_noisy_trials_are_reported_in_few_lines(tmp_path: Path) -> None:
    scores: dict[str, list[float | None]] = {f"t{n}": [0.2 + n] for n in range(8)}
    _, _, printed = repeated(tmp_path, NoiseLimit(0.1, 1), **scores)
    assert len(printed.splitlines()) == 6
    assert "noise: t7 stayed above 0.1 in 1 attempts; the quietest counts, with 7.2" in printed
    assert "noise: 3 more trials stayed above it, with lower scores" in printed


def test_going_on_counts_earlier_attempts(tmp_path: Path) -> None:
    repeated(tmp_path, NoiseLimit(0.1, 2), a=[0.5, 0.2])
    again = Launcher({"a": [0.05]})
    console = Console(file=io.StringIO())
    run_until_quiet(prepared([tmp_path / "a"]), NoiseLimit(0.1, 2), again, console)
    assert again.rounds == []
    run_until_quiet(prepared([tmp_path / "a"]), NoiseLimit(0.1, 3), again, console)
    assert again.rounds == [["a"]]
    assert read_attempts(tmp_path / "a").current == 0.05


def test_a_repetition_that_fails_does_not_replace_a_finished_attempt(tmp_path: Path) -> None:
    launcher, counts, _ = repeated(tmp_path, NoiseLimit(0.1), a=[0.5, None])
    assert launcher.rounds == [["a"]]
    assert counts == {"a": (1, "1")}
    assert trial_state(tmp_path / "a").name == "done"


def test_failed_and_unscored_trials_are_left_alone(tmp_path: Path) -> None:
    launcher, _, printed = repeated(tmp_path, NoiseLimit(0.0), a=[None])
    assert launcher.rounds == []
    assert printed == ""


def test_an_interrupted_repetition_brings_the_finished_attempt_back(tmp_path: Path) -> None:
    directory = tmp_path / "a"
    run_once(directory, iter([0.5]))

    def interrupted(trials: list[PreparedTrial]) -> None:
        (directory / "samples.csv").write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_until_quiet(prepared([directory]), NoiseLimit(0.1), interrupted, Console(file=io.StringIO()))
    assert trial_state(directory).name == "done"
    assert (directory / "samples.csv").read_text() == "1"
    assert (directory / "attempts" / "2" / "samples.csv").read_text() == "half"


def test_a_trial_that_a_later_one_shows_to_be_slow_is_repeated(tmp_path: Path) -> None:
    """The machine throttled, steadily, in the first trial: only the second shows it."""
    scores = {"first": iter([0.0, 0.0]), "second": iter([0.0])}
    calibrations = {"first": iter([3_000_000, 2_000_000]), "second": iter([2_000_000])}
    trials = tmp_path / "trials"
    trials.mkdir()

    def launch(trials: list[PreparedTrial]) -> None:
        for trial in trials:
            directory = trial.directory
            run_once(directory, scores[directory.name])
            path = directory / "outcome.json"
            outcome = json.loads(path.read_text())
            outcome["noise"] |= {"host": "here", "calibration_ns": next(calibrations[directory.name])}
            path.write_text(json.dumps(outcome))

    directories = [trials / name for name in scores]
    launch([PreparedTrial(trial_file(directory), directory) for directory in directories])
    (tmp_path / "calibrations.json").write_text(json.dumps({"here": 2_000_000}))
    run_until_quiet(prepared(directories), NoiseLimit(0.1), launch, Console(file=io.StringIO()))
    assert read_attempts(trials / "first").aside == {1: pytest.approx(0.5)}
    assert read_attempts(trials / "first").current == 0.0
    assert read_attempts(trials / "second").count == 1


def test_attempts_without_a_limit_are_a_problem(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["run", str(tmp_path / "study.toml"), "--noise-attempts", "5"])
    assert isinstance(done.exception, Problem)
    assert "--max-noise" in (done.exception.fix or "")


def test_what_runs_again_is_what_the_session_prepared_not_an_old_record(tmp_path: Path) -> None:
    """A foreign directory could name any program as the interpreter."""
    directory = tmp_path / "a"
    run_once(directory, iter([0.5]))
    foreign = replace(trial_file(directory), interpreter="/tmp/evil", variables={"LD_PRELOAD": "evil.so"})
    (directory / "trial.json").write_text(json.dumps(foreign.to_json()))
    launched: list[PreparedTrial] = []

    def launch(trials: list[PreparedTrial]) -> None:
        launched.extend(trials)
        assert read_trial(directory) == trial_file(directory)
        run_once(directory, iter([0.0]))

    run_until_quiet(prepared([directory]), NoiseLimit(0.1), launch, Console(file=io.StringIO()))
    assert [trial.file.interpreter for trial in launched] == [None]
