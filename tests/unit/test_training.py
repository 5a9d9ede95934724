"""A worker's trial in this process, with the NumPy backend: budgets, records, repeatability, NaN."""

from __future__ import annotations

import csv
import dataclasses
import itertools
import json
import math
import os
import time
from collections import Counter
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from rldyno_rig import envs, hyper, schema, training
from rldyno_rig.algorithms import ALGORITHMS
from rldyno_rig.algorithms.dqn import Dqn
from rldyno_rig.backends import numpy_
from rldyno_rig.clock import ACT, OTHER, Clock
from rldyno_rig.contestant import Contestant
from rldyno_rig.recorder import Recorder
from rldyno_rig.trial_file import Budget, TrialFile

SMALL = {
    "dqn": {"learning_starts": 64, "hidden": (8,)},
    "rainbow": {"learning_starts": 64, "hidden": (8,), "atoms": 5},
    "a2c": {"hidden": (8,)},
    "ppo": {"hidden": (8,), "rollout_steps": 16, "epochs": 2},
}


def run(
    home: Path,
    algorithm: str,
    budget: dict[str, Any],
    seed: int = 0,
    environment: str = "CartPole-v1",
    device: str = "cpu",
    framework: str = "numpy",
    **changes: Any,
) -> dict[str, Any]:
    home.mkdir(exist_ok=True)
    values = dataclasses.replace(
        ALGORITHMS[algorithm].defaults("CartPole-v1"), **{**SMALL[algorithm], **changes}
    )
    trial = TrialFile(
        trial="here",
        contestant=Contestant(framework, "eager"),
        backend="numpy_",
        algorithm=algorithm,
        environment=environment,
        device=device,
        seed=seed,
        hyper=hyper.to_json(values),
        budget=Budget.from_json(budget),
    )
    (home / schema.TRIAL_FILE).write_text(json.dumps(trial.to_json()))
    training.train(home, time.perf_counter_ns())
    return json.loads((home / schema.RESULT_FILE).read_text())


def test_a_toolchain_may_use_the_backend_of_another_framework(tmp_path: Path) -> None:
    result = run(tmp_path, "dqn", {"steps": 20}, framework="numpy-next")
    assert result["reason"] == "steps"


def rows(path: Path) -> list[dict[str, str]]:
    with path.open() as stream:
        return list(csv.DictReader(stream))


@pytest.mark.parametrize("algorithm", SMALL)
def test_calls_are_counted(algorithm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: Counter[str] = Counter()
    make, start = numpy_.make, Recorder.start

    def watched(*given: Any) -> Any:
        learner = make(*given)
        for name in ("put", "act", "update", "read"):
            called = getattr(learner, name)

            def count(*values: Any, name: str = name, called: Any = called) -> Any:
                seen[name] += 1
                return called(*values)

            setattr(learner, name, count)
        return learner

    monkeypatch.setattr(numpy_, "make", watched)
    # Warming up does not count.
    monkeypatch.setattr(Recorder, "start", lambda recorder: (seen.clear(), start(recorder))[1])
    result = run(tmp_path, algorithm, {"steps": 600})
    environments = ALGORITHMS[algorithm].defaults("CartPole-v1").environments
    assert result["calls"] == {
        "environment": result["steps"] // environments,
        "act": seen["act"],
        "transfer": seen["put"],
        "update": seen["update"],
        "read": seen["read"],
    }
    assert result["updates"] == seen["update"] > 0


@pytest.mark.parametrize("algorithm", SMALL)
def test_a_trial_leaves_a_complete_record(algorithm: str, tmp_path: Path) -> None:
    result = run(tmp_path, algorithm, {"steps": 600})
    assert result["reason"] == "steps"
    assert 600 <= result["steps"] < 600 + 128
    assert result["updates"] > 0
    assert sum(result["phases_ns"].values()) == result["train_ns"]
    assert list(result["phases_ns"]) == list(schema.PHASES)
    assert list(result["startup_ns"]) == list(schema.STARTUP)
    assert sum(result["startup_ns"].values()) == result["train_start_ns"]
    episodes = rows(tmp_path / schema.EPISODES_FILE)
    assert tuple(episodes[0]) == schema.EPISODE_COLUMNS
    assert len(episodes) == result["episodes"]
    # On CartPole every step is worth 1, so an episode's return is its length.
    assert all(float(episode["return"]) == int(episode["length"]) for episode in episodes)
    assert sum(int(episode["length"]) for episode in episodes) <= result["steps"]
    progress = rows(tmp_path / schema.PROGRESS_FILE)
    assert tuple(progress[-1]) == schema.PROGRESS_COLUMNS
    assert int(progress[-1]["step"]) == result["steps"]
    assert math.isfinite(float(progress[-1]["loss"]))
    facts = json.loads((tmp_path / schema.FACTS_FILE).read_text())
    assert facts["versions"] == {"numpy": np.__version__}
    assert facts["network"] == "mlp"


@pytest.mark.parametrize("algorithm", ["dqn", "rainbow"])
def test_learning_begins_once_replay_memory_is_filled(algorithm: str, tmp_path: Path) -> None:
    result = run(tmp_path / "learned", algorithm, {"steps": 300}, learning_starts=200, train_every=4)
    assert result["learning"]["step"] == 200
    assert 0 < result["learning"]["time_ns"] - result["train_start_ns"] < result["train_ns"]
    assert run(tmp_path / "ended", algorithm, {"steps": 100}, learning_starts=200)["learning"] is None


@pytest.mark.parametrize("algorithm", ["a2c", "ppo"])
def test_rollouts_learn_from_the_first_step(algorithm: str, tmp_path: Path) -> None:
    result = run(tmp_path, algorithm, {"steps": 300})
    assert result["learning"] == {"step": 0, "time_ns": result["train_start_ns"]}


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", SMALL)
def test_the_seed_decides_everything(algorithm: str, tmp_path: Path) -> None:
    def actions(name: str, seed: int) -> str:
        run(tmp_path / name, algorithm, {"steps": 400}, seed)
        return (tmp_path / name / schema.ACTIONS_FILE).read_text()

    assert actions("a", 0) == actions("b", 0)
    assert actions("a", 0) != actions("c", 1)


def test_a_longer_budget_only_goes_on(tmp_path: Path) -> None:
    run(tmp_path / "short", "dqn", {"steps": 300})
    run(tmp_path / "long", "dqn", {"steps": 600})
    short, long = ((tmp_path / name / schema.ACTIONS_FILE).read_text() for name in ("short", "long"))
    assert long.startswith(short)


def test_episodes_end_a_trial(tmp_path: Path) -> None:
    result = run(tmp_path, "dqn", {"episodes": 7})
    assert (result["reason"], result["episodes"]) == ("episodes", 7)
    assert result["threshold"] is None


def test_a_return_held_long_enough_ends_a_trial(tmp_path: Path) -> None:
    result = run(tmp_path, "dqn", {"steps": 5_000, "stop_return": 5.0, "stop_episodes": 4})
    assert result["reason"] == "return"
    assert result["threshold"]["reached"]
    assert result["threshold"]["episode"] == result["episodes"] == 4
    assert result["threshold"]["step"] == result["steps"]


def test_a_threshold_never_reached_is_not_a_number(tmp_path: Path) -> None:
    result = run(tmp_path, "dqn", {"steps": 300, "stop_return": 1e9, "stop_episodes": 1})
    assert result["threshold"] == {"reached": False, "step": None, "episode": None, "time_ns": None}


@pytest.mark.slow
def test_wall_time_ends_a_trial(tmp_path: Path) -> None:
    result = run(tmp_path, "ppo", {"wall_s": 0.3})
    assert result["reason"] == "wall"
    assert 0.3 <= result["train_ns"] / 1e9 < 3


@pytest.mark.parametrize("algorithm", SMALL)
def test_a_nan_is_told(algorithm: str, tmp_path: Path) -> None:
    with np.errstate(all="ignore"):
        result = run(tmp_path, algorithm, {"steps": 400}, learning_rate=1e38, learning_rate_end=1e38)
    assert result["reason"] == "nan"
    assert "update" in result["message"]


def test_a_crash_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = run(tmp_path, "dqn", {"steps": 100}, environment="NoSuchPlace-v0")
    assert result["reason"] == "crashed"
    assert "NoSuchPlace" in result["message"]
    assert "Traceback" in capsys.readouterr().err


def test_warming_up_changes_nothing(tmp_path: Path) -> None:
    trial = TrialFile(
        trial="here",
        contestant=Contestant("numpy", "eager"),
        algorithm="dqn",
        environment="CartPole-v1",
        seed=0,
        hyper=hyper.to_json(Dqn(hidden=(8,))),
        budget=Budget(steps=1),
    )
    recorder = Recorder(tmp_path, trial.budget, Clock(), 0)
    job = training.build(trial, numpy_, recorder)
    before = job.learner.state()
    updates_by_then: list[int] = []
    training.warm_up(job, first_called=lambda: updates_by_then.append(job.learner.state()["t"]))
    assert updates_by_then == [1]
    after = job.learner.state()
    assert after["t"] == 0
    for key in ("params", "target", "m", "v"):
        for name in before[key]:
            np.testing.assert_array_equal(before[key][name], after[key][name])


class Many(numpy_.Learner):
    """Several updates in one call; `calls` notes how many each made."""

    calls: ClassVar[list[int]] = []

    def update_many(self, batches: Any, lr: float) -> Any:
        Many.calls.append(len(batches[0]))
        update = super().update
        return [update(batch, lr) for batch in zip(*batches, strict=True)][-1]

    def update(self, batch: Any, lr: float) -> Any:
        Many.calls.append(1)
        return super().update(batch, lr)


@pytest.mark.parametrize(
    ("changes", "per_call"),
    [({}, 2 * 4), ({"epochs": 1, "minibatches": 1}, 1), ({"environments": 128, "rollout_steps": 128}, 4)],
)
def test_updates_in_one_call_train_the_same_agent(
    changes: dict[str, Any], per_call: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All minibatches of a small rollout, those of an epoch of a large one; warmed up in the same shape."""
    single = run(tmp_path / "single", "ppo", {"steps": 400}, **changes)
    monkeypatch.setattr(Many, "calls", [])
    monkeypatch.setattr(numpy_, "Learner", Many)
    many = run(tmp_path / "many", "ppo", {"steps": 400}, **changes)
    assert set(Many.calls) == {per_call}
    assert sum(Many.calls) == many["updates"] + training.WARM_UP_CALLS * per_call
    assert single["updates"] == many["updates"]
    assert single["final_return"] == many["final_return"]
    for name in (schema.ACTIONS_FILE, schema.EPISODES_FILE):
        texts = [
            [row[:3] for row in csv.reader((tmp_path / one / name).open())] for one in ("single", "many")
        ]
        assert texts[0] == texts[1]
    losses = [rows(tmp_path / one / schema.PROGRESS_FILE)[-1]["loss"] for one in ("single", "many")]
    assert losses[0] == losses[1]
    facts = [json.loads((tmp_path / one / schema.FACTS_FILE).read_text()) for one in ("single", "many")]
    assert [one["updates_per_call"] for one in facts] == [1, per_call]


def test_every_nanosecond_belongs_to_one_phase() -> None:
    ticks = itertools.count(0, 10)
    clock = Clock(lambda: next(ticks))
    started = clock.start()
    clock.mark(ACT)
    end = clock.mark(OTHER)
    assert sum(clock.spent) == end - started == 20
    assert clock.phases()["act"] == 10


def test_a_worker_ends_when_its_runner_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder(tmp_path, Budget(steps=10), Clock(), 0)
    recorder.start()
    recorder.beat(1, 1, None)
    monkeypatch.setattr(os, "getppid", lambda: 1)
    with pytest.raises(SystemExit):
        recorder.beat(2, 2, None)


class Rewarding:
    """CartPole whose rewards, or observations, are not finite from a step on."""

    def __init__(self, value: float, what: str) -> None:
        self._inner = envs.BUILT_IN["CartPole-v1"](1, 0, None)
        self._value, self._what, self._steps = value, what, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def step(self, actions: np.ndarray) -> Any:
        obs, reward, *rest, final = self._inner.step(actions)
        self._steps += 1
        if self._steps > 100:
            if self._what == "reward":
                reward = np.full_like(reward, self._value)
            else:
                obs[:] = self._value
        return (obs, reward, *rest, final)


@pytest.mark.parametrize("algorithm", SMALL)
@pytest.mark.parametrize(("value", "what"), [(math.nan, "reward"), (math.inf, "reward"), (math.nan, "obs")])
def test_values_of_the_environment_that_are_not_finite_end_a_trial(
    algorithm: str, value: float, what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training.envs, "make", lambda *_: Rewarding(value, what))
    with np.errstate(all="ignore"):
        result = run(
            tmp_path, algorithm, {"steps": 2000, "stop_return": 400, "stop_episodes": 1}, environments=1
        )
    assert result["reason"] == "nan"
    if "steps" in result:  # else the backend did not stand it
        assert result["steps"] <= 2000
        assert result["threshold"]["reached"] is False
        assert math.isfinite(result["final_return"])
