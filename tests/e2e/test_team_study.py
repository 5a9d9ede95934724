"""A study of two workers that meet through MPI, from the command to its answer: nothing here is a fake."""

from __future__ import annotations

from pathlib import Path

import pytest
from fakes import outcome_of, rldyno

from rldyno_rig import schema

STUDY = """
contestants = ["numpy:eager"]
algorithms = ["dqn"]
environments = ["CartPole-v1"]
workers = [1, 2]
collective = "host"
scaling = ["weak", "strong"]
seeds = 2

[budget]
steps = 1_200

[hyper.dqn]
learning_starts = 128
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("team")
    (folder / "team.toml").write_text(STUDY)
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


@pytest.mark.parametrize("scaling", ["2-host.", "2-host-strong."])
def test_a_team_says_what_it_averaged(results: Path, scaling: str) -> None:
    for path in trials(results, scaling):
        result = outcome_of(path)["result"]
        team = result["team"]
        assert (team["size"], team["collective"], team["means"]) == (2, "host", "mpi")
        # Rank 0 counts its updates; each is one reduction of the gradient of all weights.
        assert team["reductions"] == result["updates"] > 0
        assert team["bytes"] > 0
        assert 0 < result["phases_ns"]["communicate"] < result["train_ns"]
        assert sum(result["phases_ns"].values()) <= result["train_ns"]
        assert result["steps"] == 1_200, "the steps of both workers count"
        assert (path / "workers/1" / schema.RESULT_FILE).exists()
        episodes = (path / schema.EPISODES_FILE).read_text().splitlines()[1:]
        assert len(episodes) == result["episodes"] > 0


def test_both_ranks_train_on_environments_of_their_own(results: Path) -> None:
    for path in trials(results, "2-host."):
        own, other = ((path / part / schema.ACTIONS_FILE).read_text() for part in (".", "workers/1"))
        assert own != other


def test_the_answer_compares_two_workers_with_one(results: Path) -> None:
    said = " ".join((results.parent / "said").read_text().split())
    assert "DQN on CartPole-v1, 2 workers, collective host, strong scaling" in said
    assert "✓ numpy:eager" in said, "proven with this collective"
    assert "2 workers against 1 worker, speed" in said
    assert 'id="workers"' in (results / "report.html").read_text()
