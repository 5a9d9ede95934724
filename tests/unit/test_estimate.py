"""Time estimates: where they come from and what they are worth."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import pytest

from rldyno.records.outcome import Outcome
from rldyno.session.estimate import Rate, Rates, estimate, load_rates, rates_file, rates_of, remember
from rldyno.study.file import load_study
from rldyno.study.plan import make_plan
from rldyno_rig.result_file import WorkerResult

STUDY = """
contestants = ["numpy:eager", "torch:eager"]
algorithms = "dqn"
environments = "{environment}"
seeds = 2
budget = {{ {budget} }}
"""
NUMPY = "numpy:eager dqn CartPole-v1 cpu 1"
TORCH = "torch:eager dqn CartPole-v1 cpu 1"


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("RLDYNO_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def plan_of(tmp_path):
    def make(budget: str = "steps = 1000", environment: str = "CartPole-v1"):
        path = tmp_path / "x.toml"
        path.write_text(STUDY.format(budget=budget, environment=environment))
        return make_plan(load_study(path))

    return make


def outcome(steps: int, train_s: float, wall_s: float, status: str = "done"):
    result = WorkerResult("steps", steps=steps, train_ns=int(train_s * 1e9))
    return Outcome(status=status, wall_s=wall_s, result=result)


def test_own_history_goes_before_shipped_rates(plan_of) -> None:
    own, shipped = Rate(0.01, 5.0, 4), Rate(0.02, 1.0, 9)
    plan = plan_of()
    estimated = estimate(plan, Rates({NUMPY: own}, {NUMPY: shipped, TORCH: shipped}))
    expected = {
        "numpy:eager": (pytest.approx(15.0), "from earlier trials on this machine"),
        "torch:eager": (pytest.approx(21.0), "from rates measured on another machine"),
    }
    for trial, guess in zip(plan.trials, estimated.guesses, strict=True):
        assert (guess.seconds, guess.source) == expected[trial.cell.contestant]
    assert estimated.total_s == pytest.approx(72.0)
    assert estimated.unknown == 0
    both = estimate(plan, Rates({NUMPY: own, TORCH: Rate(0.02, 1.0, 5230)}, {}))
    assert both.sources == ("from earlier trials on this machine",)


def test_what_is_unknown_is_said(plan_of) -> None:
    estimated = estimate(plan_of(), Rates({NUMPY: Rate(0.01, 5.0, 1)}, {}))
    assert estimated.unknown == 2
    assert estimated.total_s == pytest.approx(30.0)
    assert set(estimated.sources) == {
        "from earlier trials on this machine",
        "unknown: no earlier trial of torch:eager dqn on CartPole-v1 (cpu, cores 1)",
    }


@pytest.mark.parametrize(
    ("budget", "seconds"),
    [
        ("steps = 1000", 15.0),
        ("episodes = 3", 5 + 3 * 500 * 0.01),
        ("steps = 1000, episodes = 1", 10.0),
        ("wall_s = 2", 7.0),
        ("wall_s = 2000, steps = 1000", 15.0),
    ],
)
def test_the_tightest_budget_bounds_the_time(plan_of, budget, seconds) -> None:
    rate = Rate(0.01, 5.0, 1)
    guesses = estimate(plan_of(budget), Rates({NUMPY: rate, TORCH: rate}, {})).guesses
    assert [guess.seconds for guess in guesses] == [pytest.approx(seconds)] * 4


def test_wall_time_bounds_what_was_never_run(plan_of) -> None:
    guess = estimate(plan_of("wall_s = 60"), Rates({}, {})).guesses[0]
    assert (guess.seconds, guess.source) == (60.0, "from budget.wall_s")


def test_episodes_of_unknown_length_cannot_be_estimated(plan_of) -> None:
    rate = Rate(0.01, 5.0, 1)
    own = {f"{name} dqn Acrobot-v1 cpu 1": rate for name in ("numpy:eager", "torch:eager")}
    estimated = estimate(plan_of("episodes = 3", "Acrobot-v1"), Rates(own, {}))
    assert estimated.unknown == 4
    assert "no known limit" in estimated.sources[0]


def test_finished_trials_are_remembered_and_averaged(plan_of) -> None:
    trial = next(t.to_file() for t in plan_of().trials if t.cell.contestant == "numpy:eager")
    remember(trial, outcome(steps=1000, train_s=10, wall_s=12))
    assert load_rates().own == {NUMPY: Rate(0.01, 2.0, 1)}
    remember(trial, outcome(steps=1000, train_s=20, wall_s=26))
    mean = load_rates().own[NUMPY]
    assert dataclasses.astuple(mean) == pytest.approx((0.015, 4.0, 2))
    for _ in range(20):
        remember(trial, outcome(steps=1000, train_s=40, wall_s=41))
    assert load_rates().own[NUMPY].seconds_per_step == pytest.approx(0.04, rel=0.01)


@pytest.mark.parametrize(
    "ended",
    [
        outcome(1000, 10, 12, status="failed"),
        outcome(0, 10, 12),
        Outcome(status="failed"),
    ],
)
def test_trials_that_do_not_show_the_speed_are_not_remembered(plan_of, ended) -> None:
    remember(plan_of().trials[0].to_file(), ended)
    assert load_rates().own == {}


@pytest.mark.parametrize("content", ["", "{", "[1]", '{"a": {"b": 1}}', '{"a": 3}'])
def test_a_damaged_history_is_started_again(plan_of, content) -> None:
    rates_file().parent.mkdir(parents=True)
    rates_file().write_text(content)
    assert load_rates().own == {}
    remember(plan_of().trials[0].to_file(), outcome(10, 1, 1))
    assert len(load_rates().own) == 1
    assert [path.name for path in rates_file().parent.iterdir()] == ["rates.json"]


def test_a_history_that_cannot_be_written_stops_nothing(plan_of, cache) -> None:
    cache.write_text("a file where the directory should be")
    remember(plan_of().trials[0].to_file(), outcome(10, 1, 1))
    assert load_rates().own == {}


@pytest.mark.slow
def test_rates_of_a_results_directory(plan_of, tmp_path) -> None:
    for trial in plan_of().trials:
        directory = tmp_path / "results" / "trials" / trial.id
        directory.mkdir(parents=True)
        (directory / "trial.json").write_text(json.dumps(trial.to_json()))
        (directory / "outcome.json").write_text(json.dumps(outcome(100, 1, 3).to_json()))
    expected = {NUMPY: Rate(0.01, 2.0, 2), TORCH: Rate(0.01, 2.0, 2)}
    assert rates_of([tmp_path / "results"]) == expected
    command = [sys.executable, "-m", "rldyno.session.estimate", tmp_path / "results"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert {key: Rate(**values) for key, values in json.loads(printed).items()} == expected
    empty = subprocess.run([*command[:3], tmp_path / "none"], capture_output=True, text=True)
    assert empty.returncode == 1
    assert "no finished trial" in empty.stderr
