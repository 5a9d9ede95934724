"""Studies of two workers that meet through MPI, from the command to its answer: nothing here is a fake."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import NamedTuple

import pytest
from fakes import PATIENCE_S, outcome_of, rldyno, start, wait_until, workers_in

from rldyno.processes.team import group_below_mpi
from rldyno_rig import schema

STUDY = """
contestants = ["{contestant}"]
algorithms = ["dqn"]
environments = ["CartPole-v1"]
workers = [1, 2]
collective = "{collective}"
scaling = ["weak", "strong"]
seeds = 2

[budget]
steps = 1_200

[hyper.dqn]
learning_starts = 128
"""
ENDLESS = """
contestants = ["{contestant}"]
algorithms = ["dqn"]
environments = ["CartPole-v1"]
workers = 2
collective = "{collective}"
seeds = 2

[budget]
steps = 100_000_000
"""


class Team(NamedTuple):
    contestant: str
    collective: str
    means: str
    """What carries the gradients."""


TEAMS = [
    Team("numpy:eager", "host", "mpi"),
    pytest.param(
        Team("chainer:eager", "native", "chainermn, mpi"),
        marks=[pytest.mark.slow, pytest.mark.toolchain("chainer")],
    ),
]


@pytest.fixture(scope="module", params=TEAMS, ids=lambda team: team.contestant)
def team(request: pytest.FixtureRequest) -> Team:
    assert isinstance(request.param, Team)
    return request.param


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory, team: Team) -> Path:
    folder = tmp_path_factory.mktemp("team")
    (folder / "team.toml").write_text(STUDY.format(**team._asdict()))
    done = rldyno("run", folder / "team.toml", "--out", folder / "out")
    assert done.returncode == 0, done.stdout + done.stderr
    (folder / "said").write_text(done.stdout)
    return folder / "out"


def trials(results: Path, part: str) -> list[Path]:
    return sorted(path for path in (results / "trials").iterdir() if part in path.name)


def test_all_trials_are_done_and_sound(results: Path) -> None:
    checked = rldyno("check", results)
    assert checked.returncode == 0, checked.stdout
    found = [outcome_of(path) for path in trials(results, "")]
    assert [outcome["status"] for outcome in found] == ["done"] * 6
    assert not list(results.rglob("meeting*")), "what only served the start is removed"


@pytest.mark.parametrize("scaling", ["", "-strong"])
def test_a_team_says_what_it_averaged(results: Path, team: Team, scaling: str) -> None:
    found = trials(results, f"2-{team.collective}{scaling}.")
    assert len(found) == 2
    for path in found:
        result = outcome_of(path)["result"]
        said = result["team"]
        assert (said["size"], said["collective"], said["means"]) == (2, team.collective, team.means)
        # Rank 0 counts its updates; each is one reduction of the gradient of all weights.
        assert said["reductions"] == result["updates"] > 0
        assert said["bytes"] > 0
        assert 0 < result["phases_ns"]["communicate"] < result["train_ns"]
        assert sum(result["phases_ns"].values()) <= result["train_ns"]
        assert result["steps"] == 1_200, "the steps of both workers count"
        assert (path / "workers/1" / schema.RESULT_FILE).exists()
        episodes = (path / schema.EPISODES_FILE).read_text().splitlines()[1:]
        assert len(episodes) == result["episodes"] > 0


def test_both_ranks_train_on_environments_of_their_own(results: Path, team: Team) -> None:
    for path in trials(results, f"2-{team.collective}."):
        own, other = ((path / part / schema.ACTIONS_FILE).read_text() for part in (".", "workers/1"))
        assert own != other


def test_the_answer_compares_two_workers_with_one(results: Path, team: Team) -> None:
    said = " ".join((results.parent / "said").read_text().split())
    assert f"DQN on CartPole-v1, 2 workers, collective {team.collective}, strong scaling" in said
    assert f"✓ {team.contestant}" in said, "proven with this collective"
    assert "2 workers against 1 worker, speed" in said
    assert 'id="workers"' in (results / "report.html").read_text()


def test_a_killed_worker_ends_the_trial_and_the_study_goes_on(team: Team, tmp_path: Path) -> None:
    study, out = tmp_path / "team.toml", tmp_path / "out"
    study.write_text(ENDLESS.format(**team._asdict()))
    run = start("run", study, "--out", out, "--no-verify", "--no-report", "--no-limits")
    for _ in range(2):
        wait_until(lambda: bool(training(out)))
        (trial,) = training(out)
        kill_second_worker(trial)
        wait_until((trial / schema.OUTCOME_FILE).exists)
        outcome = outcome_of(trial)
        assert (outcome["status"], outcome["reason"]) == ("failed", "killed")
        assert outcome["message"].startswith("worker 1 was killed by SIGKILL from outside (")
    said, _ = run.communicate(timeout=PATIENCE_S)
    assert run.returncode == 1, said
    assert workers_in(out) == []


def training(out: Path) -> list[Path]:
    """Trials without an outcome whose second worker has begun."""
    begun = [path.parents[2] for path in out.glob(f"trials/*/workers/1/{schema.PROGRESS_FILE}")]
    return [trial for trial in begun if not (trial / schema.OUTCOME_FILE).exists()]


def kill_second_worker(trial: Path) -> None:
    """It is the child of the shell that keeps it below mpiexec."""
    shell = group_below_mpi(trial, 1)
    (worker,) = Path(f"/proc/{shell}/task/{shell}/children").read_text().split()
    os.kill(int(worker), signal.SIGKILL)
