"""Do open loops learn like the closed division: curves, the test, and the command."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from rldyno.answers.open_learning import verdict
from rldyno.cli import app
from rldyno.division import learning
from rldyno_rig.contestant import Contestant
from rldyno_rig.hyper import to_json
from rldyno_rig.open.curve import Curve, Goal
from rldyno_rig.open.job import learn
from rldyno_rig.open.job_file import OpenJob, OpenLearned
from rldyno_rig.open.problem import shipped

GOAL = Goal(mean_return=100.0, episodes=4, steps=20_000)
CLOSED = Contestant("numpy", "eager")


def curve(learned_at: int, steps: int = 6000) -> Curve:
    """Episodes of 20 steps, and of 200 once the agent has learned."""
    ends, at = [], 0
    while at < steps:
        at += 200 if at >= learned_at else 20
        ends.append(at)
    return Curve(tuple(ends), tuple(range(1, len(ends) + 1)), tuple(ends))


def curves(middle: float, seeds: int = 12, steps: int = 6000) -> list[Curve]:
    rng = np.random.default_rng(int(middle))
    return [curve(int(middle * rng.uniform(0.95, 1.05)), steps) for _ in range(seeds)]


def test_the_goal_is_reached_when_the_last_episodes_reach_it() -> None:
    """20 20 20 … 200 200: of four episodes two must be long, (2 · 20 + 2 · 200) / 4 = 110 ≥ 100."""
    assert GOAL.reached(curve(1000), 1.0) == 1400
    assert GOAL.reached(curve(10**6), 1.0) is None
    # Where every step costs 1, short episodes are good: a mean return of −20 at the fourth episode.
    assert Goal(-20.0, 4, 20_000).reached(curve(1000), -1.0) == 80


def test_points_with_several_episodes_count_them_all() -> None:
    seen = Curve((100, 200, 300), (5, 5, 9), (100, 100, 900))
    assert GOAL.reached(seen, 1.0) == 300
    assert seen.means() == ((100, 20.0, 5), (300, 200.0, 4))
    assert Curve.from_json(json.loads(json.dumps(seen.to_json()))) == seen


@pytest.mark.parametrize(("middle", "state"), [(2010, "equal"), (4000, "different")])
def test_the_equivalence_test_decides(middle: int, state: str) -> None:
    found = verdict("jax", curves(middle), curves(2000), CLOSED, GOAL, 1.0)
    assert found.parity.state == state
    assert len(found.open_steps) == len(found.closed_steps) == 12
    assert found.parity.reference == "numpy:eager"


def test_few_seeds_decide_nothing() -> None:
    found = verdict("jax", curves(2000, 3), curves(2000, 3), CLOSED, GOAL, 1.0)
    assert found.parity.state == "undecided"
    assert "too few seeds" in found.words


def test_a_loop_says_how_its_agent_learned() -> None:
    hyper = to_json(shipped("a2c", "CartPole-v1", hidden=(8,)))
    job = OpenJob("numpy_", "a2c", "CartPole-v1", hyper, learn=Goal(5.0, 2, 4000))
    again = OpenJob.from_json(json.loads(json.dumps(job.to_json())))
    assert again.learn == job.learn is not None
    found = OpenLearned.from_json(json.loads(json.dumps(learn(again, again.learn).to_json())))
    (one,) = found.curves
    # Sixteen points of six rounds of 40 steps: then it looks, and an easy goal is reached.
    assert one.step[-1] == 16 * 6 * 40
    assert one.episodes[-1] > 10
    assert one.episode_steps[-1] <= one.step[-1]


def test_the_command_prints_the_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    some = curves(2000, steps=20_000)
    long = [Curve(c.step, c.episodes, tuple(5 * n for n in c.episode_steps)) for c in some]
    monkeypatch.setattr(learning, "open_curves", lambda *given: long)
    monkeypatch.setattr(learning, "closed_curves", lambda *given: long)
    command = ["open", "--learning", "12", "--algorithm", "dqn", "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    assert "jax: learns like numpy:eager" in done.output
    record = json.loads((tmp_path / "out" / "open-learning.json").read_text())
    assert record["rows"][0]["state"] == "equal"
    assert record["goal"]["mean_return"] == 475
