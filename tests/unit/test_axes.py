from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from test_answers import printed
from test_trust import disturb
from typer.testing import CliRunner

import rldyno
from rldyno.answers.analysis import Analysis
from rldyno.answers.axes import FASTER, NO_FASTER, SLOWER, UNCLEAR, AxisAnswer, lines_of, state_of
from rldyno.cli import app
from rldyno.stats.estimates import Estimate
from synthetic import NUMPY, TORCH, Shape, write_results

# The synthetic trials are 2 ** 0.3 times as fast on two cores.
TWO_CORES = {"numpy c2": 2.4 / 2**0.3, "torch c2": 1 / 2**0.3}


def speed_up(root: Path, factors: Mapping[str, float]) -> Path:
    """Train in less time where the name of a trial contains all words of a key."""
    for path in root.glob("trials/*/outcome.json"):
        for words, factor in factors.items():
            if all(word in path.parent.name for word in words.split()):
                outcome = json.loads(path.read_text())
                outcome["result"]["train_ns"] = int(outcome["result"]["train_ns"] / factor)
                path.write_text(json.dumps(outcome))
    return root


def written(path: Path, **shape: Any) -> Path:
    settings: dict[str, Any] = {"algorithms": ["ppo"], "seeds": 6, "sample_hz": 2, "stop_return": None}
    return write_results(path, Shape(contestants=[NUMPY, TORCH], **settings | shape))


def answers(root: Path) -> tuple[AxisAnswer, ...]:
    return Analysis.load(root).axis_answers


def test_two_cores_are_faster_for_one_and_not_for_the_other(tmp_path: Path) -> None:
    root = speed_up(written(tmp_path / "r", cores=(1, 2)), TWO_CORES)
    (answer,) = answers(root)
    assert (answer.axis, answer.base, answer.level) == ("cores", 1, 2)
    states = {change.contestant: change.state for change in answer.changes}
    assert states == {"numpy:eager": FASTER, "torch:eager": NO_FASTER}
    ratio = answer.changes[0].ratio
    assert ratio is not None
    assert ratio.point == pytest.approx(2.4, rel=0.1)
    assert "PPO on CartPole-v1, 2 cores against 1 core, speed: `numpy:eager` is 2." in answer.words
    assert "; `torch:eager` is no faster (" in answer.words


def test_everybody_shows_it(tmp_path: Path) -> None:
    root = speed_up(written(tmp_path / "r", cores=(1, 2)), TWO_CORES)
    (answer,) = answers(root)
    words = answer.words
    assert words in " ".join(printed(root, width=100).split())
    assert words in " ".join(CliRunner().invoke(app, ["advise", str(root)]).output.split())
    (found,) = json.loads(CliRunner().invoke(app, ["advise", str(root), "--json"]).output)
    assert [item["state"] for item in found["axes"][0]["contestants"]] == [FASTER, NO_FASTER]
    table = rldyno.load(root).axes()
    assert str(table) == words
    assert table.frame["state"].to_list() == [FASTER, NO_FASTER]


def test_no_faster_needs_an_interval_that_says_so() -> None:
    assert state_of(Estimate(2.4, 2.1, 2.7, 5), 0.001) == FASTER
    assert state_of(Estimate(0.5, 0.4, 0.6, 5), 0.001) == SLOWER
    assert state_of(Estimate(1.01, 0.97, 1.05, 5), 0.7) == NO_FASTER
    assert state_of(Estimate(1.01, 0.70, 1.50, 5), 0.7) == UNCLEAR
    assert state_of(Estimate(1.3, 1.01, 1.5, 5), 0.2) == UNCLEAR
    assert state_of(None, 0.01) == UNCLEAR


def test_the_gate_holds_along_axes_too(tmp_path: Path) -> None:
    root = disturb(written(tmp_path / "r", cores=(1, 2)), 24)
    (answer,) = answers(root)
    assert answer.trust.barred
    assert answer.changes == ()
    assert "no answer. 24 of 24 trials ran on a disturbed machine" in answer.words
    assert "×" not in answer.words
    assert rldyno.load(root).axes().frame["no_answer"].to_list() == [answer.trust.words]
    (few,) = answers(written(tmp_path / "s", cores=(1, 2), seeds=1))
    assert few.trust.barred


def test_hyper_parameters_are_judged_by_what_they_do_to_learning(tmp_path: Path) -> None:
    shape = {"hyper": {"batch_size": [32, 64, 128]}, "algorithms": ["dqn"], "stop_return": 475.0}
    found = answers(written(tmp_path / "r", **shape))
    assert [(answer.level, answer.base, answer.metric.name) for answer in found] == [
        (64, 32, "threshold_s"),
        (64, 32, "threshold_steps"),
        (128, 32, "threshold_s"),
        (128, 32, "threshold_steps"),
    ]


def test_members_that_need_fewer_steps_and_more_time_are_said_so(tmp_path: Path) -> None:
    """Half of the steps to the threshold, twice the time."""
    shape = {"hyper": {"members": [1, 5]}, "algorithms": ["dqn"], "stop_return": 475.0}
    root = written(tmp_path / "r", **shape)
    for path in root.glob("trials/*/outcome.json"):
        if json.loads((path.parent / "trial.json").read_text())["hyper"]["members"] == 5:
            outcome = json.loads(path.read_text())
            threshold = outcome["result"]["threshold"]
            threshold["step"] //= 2
            threshold["time_ns"] *= 2
            path.write_text(json.dumps(outcome))
    time_answer, steps_answer = answers(root)
    for change in time_answer.changes:
        assert change.ratio is not None
        assert (change.state, change.ratio.point) == (SLOWER, pytest.approx(0.5, rel=0.1))
    for change in steps_answer.changes:
        assert change.ratio is not None
        assert (change.state, change.ratio.point) == (FASTER, pytest.approx(2, rel=0.1))
    start = "DQN on CartPole-v1, 5 members against 1 member, steps to the threshold: "
    assert steps_answer.words.startswith(start + "`numpy:eager` needs fewer, 0.5")
    assert "; `torch:eager` needs fewer, 0." in steps_answer.words
    assert "time to the threshold: `numpy:eager` is slower, 0." in time_answer.words
    told = " ".join(printed(root, width=100).split())
    assert time_answer.words in told
    assert steps_answer.words in told
    barred, steps_again = answers(disturb(root, 24))
    assert barred.trust.barred
    assert steps_again.words == steps_answer.words, "no load on the machine changes a number of steps"


def test_other_axes_stay_the_same_and_tasks_are_not_compared(tmp_path: Path) -> None:
    shape = {"cores": (1, 2), "hyper": {"environments": [4, 8]}, "algorithms": ["ppo", "a2c"], "seeds": 2}
    found = answers(written(tmp_path / "r", **shape))
    assert {answer.axis for answer in found} == {"cores", "hyper.environments"}
    assert len(found) == 8
    assert found[0].place == "PPO on CartPole-v1, environments 4"


def test_who_cannot_be_ranked_is_left_out(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"algorithms": ["ppo"], "seeds": 5, "sample_hz": 2, "cores": (1, 2)}
    contestants = [NUMPY, replace(TORCH, certificate="stale")]
    (answer,) = answers(write_results(tmp_path / "r", Shape(contestants=contestants, **settings)))
    assert [change.contestant for change in answer.changes] == ["numpy:eager"]


def test_lines_differ_in_one_axis_only() -> None:
    items = [({"a": a, "b": b}, (a, b)) for a in (2, 1) for b in ("x", "y")]
    assert [(axis, [item for _, item in line]) for axis, line in lines_of(items)] == [
        ("a", [(1, "x"), (2, "x")]),
        ("a", [(1, "y"), (2, "y")]),
        ("b", [(2, "x"), (2, "y")]),
        ("b", [(1, "x"), (1, "y")]),
    ]
