"""The open division without a framework: tasks, the NumPy form, the command, the record."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from rldyno.cli import app
from rldyno.division import measure as division
from rldyno.division.arithmetic import step_flops
from rldyno.division.record import OpenRecord, OpenRow, read_open
from rldyno.errors import Problem
from rldyno_rig.envs import classic
from rldyno_rig.hyper import to_json
from rldyno_rig.open import job as job_module
from rldyno_rig.open import numpy_
from rldyno_rig.open.job import measure
from rldyno_rig.open.job_file import OpenFound, OpenJob
from rldyno_rig.open.problem import PARTS, Unsupported, shipped
from rldyno_rig.open.problem import Problem as Task
from rldyno_rig.open.proof import compared
from rldyno_rig.open.tasks import TASKS

PARTS_US = {"environment": 1.0, "acting": 2.5, "learning": 4.0}
FOUND = OpenFound(1.5, (100.0, 120.0), 1000, (None, 20.0), {"jax": "1"}, "cpu", PARTS_US)
SMALL: dict[str, dict[str, Any]] = {
    "ppo": {"hidden": (8, 8), "entropy_coefficient": 0.02},
    "a2c": {"hidden": (8, 8), "entropy_coefficient": 0.02},
    "dqn": {"hidden": (8, 8), "learning_starts": 100, "target_sync": 100, "epsilon_steps": 200},
}


@pytest.mark.parametrize("name", TASKS)
def test_tasks_are_those_of_the_closed_division(name: str) -> None:
    """With its sines bit for bit."""
    task = classic.CARTPOLE if name.startswith("CartPole") else classic.MOUNTAIN_CAR
    rng = np.random.default_rng(0)
    scale = [[2.6], [2.0], [0.22], [2.0]] if task.components == 4 else [[0.9], [0.07]]
    states = np.array(scale) * rng.uniform(-1, 1, (task.components, 2000))
    states[0] -= 0.3 * (task.components == 2)
    actions = rng.integers(0, task.actions, 2000)
    xp = SimpleNamespace(sin=np.vectorize(math.sin), cos=np.vectorize(math.cos), clip=np.clip, where=np.where)
    moved, terminated = TASKS[name].advance(xp, tuple(states.copy()), actions.astype(float))
    ended = task.advance_all(states, actions)
    np.testing.assert_array_equal(np.stack(moved), states)
    np.testing.assert_array_equal(terminated, ended)
    assert 0 < ended.sum() < 2000
    assert (TASKS[name].actions, TASKS[name].reward) == (task.actions, task.reward)


def problem(algorithm: str = "ppo", **changes: Any) -> Task:
    values = shipped(algorithm, "CartPole-v1", **SMALL[algorithm], **changes)
    return Task(algorithm, "CartPole-v1", values, dtype="float64")


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", SMALL)
def test_the_proof_passes_in_numpy(algorithm: str) -> None:
    proof = compared(problem(algorithm), numpy_)
    assert (proof.environment_error, proof.ends_differ, proof.first_other) == (0, 0, None)
    assert proof.update_error < 1e-12
    assert proof.actions == 2000


@pytest.mark.slow
@pytest.mark.parametrize("wrong", ["advance", "updated", "replay"])
def test_the_proof_sees_a_form_that_is_wrong(wrong: str) -> None:
    """A state, a learning rate or a discount that differ a little."""
    given = problem()
    form = SimpleNamespace(advance=numpy_.advance, updated=numpy_.updated, replay=numpy_.replay)
    if wrong == "advance":
        form.advance = lambda p, states, actions: numpy_.advance(p, states * (1 + 1e-12), actions)
    elif wrong == "updated":
        form.updated = lambda p, weights, batches, rate: numpy_.updated(p, weights, batches, rate * 1.0001)
    else:
        other = problem(gamma=0.9)
        form.replay = lambda p, *rest: numpy_.replay(other, *rest)
    proof = compared(given, form)
    passes = {
        "advance": proof.environment_error <= 2e-15,
        "updated": proof.update_error <= 1e-10,
        "replay": proof.first_other is None,
    }
    assert [name for name, passed in passes.items() if not passed] == [wrong]


def test_a_loop_is_measured() -> None:
    hyper = to_json(shipped("ppo", "CartPole-v1", hidden=(8,), environments=2, epochs=1))
    found = measure(OpenJob("numpy_", "ppo", "CartPole-v1", hyper, rounds=4, repeats=2))
    assert found.steps == 2 * 4 * 2 * 32
    assert len(found.steps_per_s) == 2
    assert found.best == max(found.steps_per_s) > 0
    assert len(found.returns) == 2
    assert all(8 <= returned <= 500 for returned in found.returns if returned is not None)


def test_rounds_are_counted_without_what_a_loop_compiles_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """A round takes 1 ms; the third captures a graph for 2 s, and the 17th compiles for 9 s."""
    now, done = 0.0, 0

    def run(rounds: int) -> None:
        nonlocal now, done
        late = {2: 2.0, 16: 9.0}
        now += 0.001 * rounds + sum(spent for at, spent in late.items() if done <= at < done + rounds)
        done += rounds

    monkeypatch.setattr(job_module.time, "perf_counter", lambda: now)
    assert job_module._rounds_for(SimpleNamespace(run=run), seconds=1.0) == 1000  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("algorithm", "environment", "changes", "words"),
    [
        ("rainbow", "CartPole-v1", {}, "rainbow"),
        ("ppo", "Acrobot-v1", {}, "Acrobot-v1"),
        ("ppo", "CartPole-v1", {"shared": True}, "torso"),
        ("ppo", "CartPole-v1", {"minibatches": 7}, "minibatches"),
        ("ppo", "MountainCar-v0", {"rollout_steps": 256}, "longer than an episode"),
    ],
)
def test_what_has_no_open_form_is_refused(algorithm: str, environment: str, changes: Any, words: str) -> None:
    with pytest.raises(Unsupported, match=words):
        Task(algorithm, environment, shipped(algorithm, environment, **changes))


@pytest.mark.parametrize("algorithm", SMALL)
def test_parts_of_a_loop_are_measured_apart(algorithm: str) -> None:
    """Loops without learning keep their weights, and random actions do not ask the network."""
    hyper = to_json(shipped(algorithm, "CartPole-v1", **SMALL[algorithm]))
    job = OpenJob("numpy_", algorithm, "CartPole-v1", hyper, seconds=0.02, repeats=2, parts=True)
    found = measure(job)
    assert found.parts_us is not None
    assert list(found.parts_us) == list(PARTS)
    assert sum(found.parts_us.values()) == pytest.approx(1e6 / found.best)
    for parts in (PARTS[:1], PARTS[:2]):
        loop = numpy_.make(replace(problem(algorithm), parts=parts))
        before = loop.learner.state()["params"]
        if parts == PARTS[:1]:
            loop.learner.act = None
        loop.run(4)
        after = loop.learner.state()["params"]
        assert all(np.array_equal(before[name], after[name]) for name in before)
        assert loop.tally().episodes > 0


def test_agents_begin_as_single_runs_of_their_seeds() -> None:
    values = shipped("ppo", "CartPole-v1")
    many = Task("ppo", "CartPole-v1", values, agents=3, seed=5)
    for agent in range(3):
        alone = Task("ppo", "CartPole-v1", values, seed=5 + agent)
        np.testing.assert_array_equal(many.first_states(agent), alone.first_states(0))
        mine, its = many.first_weights()[agent], alone.first_weights()[0]
        assert all(np.array_equal(mine[name], its[name]) for name in its)


@pytest.mark.parametrize(
    ("algorithm", "changes", "flops"),
    [
        # Two torsos of 4·8 + 8·8 products, heads of 8·2 and 8·1: 216 a row. A row of an update has the
        # products thrice, without those back to the inputs: 3·216 − 64 = 584. Four epochs.
        ("ppo", {"epochs": 4}, 2 * (216 + 4 * 584)),
        ("a2c", {}, 2 * (216 + 584)),
        # One torso, a head of 8·2: 112. An update also values the next states, twice as `double`:
        # 5·112 − 32 = 528 a row; 64 rows each 4 steps.
        ("dqn", {"train_every": 4, "batch_size": 64}, 2 * (112 + 16 * 528)),
        # At most one update follows a step of all environments.
        ("dqn", {"train_every": 4, "batch_size": 64, "environments": 64}, 2 * (112 + 1 * 528)),
    ],
)
def test_arithmetic_of_a_step_is_counted_from_the_shapes(algorithm: str, changes: Any, flops: int) -> None:
    values = shipped(algorithm, "CartPole-v1", hidden=(8, 8), **changes)
    assert step_flops(Task(algorithm, "CartPole-v1", values).spec) == flops


def test_numpy_refuses_what_it_cannot_do() -> None:
    values = shipped("ppo", "CartPole-v1")
    for given in (Task("ppo", "CartPole-v1", values, agents=2), Task("ppo", "CartPole-v1", values, "cuda")):
        with pytest.raises(Unsupported):
            numpy_.make(given)


def test_the_record_is_read_as_it_was_written() -> None:
    rows = (OpenRow("jax", 4, FOUND, None, "jax:jit", 10.0, 480.0), OpenRow("numpy", 4, None, "no toolchain"))
    values = to_json(shipped("ppo", "CartPole-v1"))
    record = OpenRecord("now", "host", "ppo", "CartPole-v1", "cpu", "float32", 1, values, rows)
    again = OpenRecord.from_json(json.loads(json.dumps(record.to_json())))
    assert again.rows == rows
    assert (again.rows[0].times_closed, again.rows[1].times_closed) == (12.0, None)
    assert (again.rows[0].share_of_limit, again.rows[1].share_of_limit) == (0.25, None)
    assert again.division == "open"


def test_the_command_prints_and_keeps_what_was_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(division, "resolve", lambda framework, overrides: framework)
    monkeypatch.setattr(division, "ask", lambda job, interpreter: FOUND.to_json())
    monkeypatch.setattr(division, "closed_rate", lambda *given: 10.0)
    monkeypatch.setattr(division, "limit_steps_per_s", lambda *given: 480.0)
    out = tmp_path / "out"
    command = ["open", "--environments", "4", "--closed", "--set", "gamma=0.9", "--out", str(out)]
    done = CliRunner().invoke(app, command, env={"COLUMNS": "220"})
    assert done.exit_code == 0, done.output
    for words in ("120", "1.5", "12.0×", "25.0%", "acting", "Never ranked"):
        assert words in done.output
    record = read_open(out)
    assert record is not None
    assert record.hyper["gamma"] == 0.9
    assert [row.framework for row in record.rows] == ["jax"]
    with pytest.raises(Problem, match="exists"):
        CliRunner().invoke(app, command, catch_exceptions=False)


def test_notes_name_the_closed_loop_that_is_as_fast(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is left on the table there."""
    monkeypatch.setattr(division, "resolve", lambda framework, overrides: framework)
    monkeypatch.setattr(division, "ask", lambda job, interpreter: FOUND.to_json())
    monkeypatch.setattr(division, "limit_steps_per_s", lambda *given: 480.0)
    rates = iter((60.0, 150.0))
    monkeypatch.setattr(division, "closed_rate", lambda *given: next(rates))
    command = ["open", "--environments", "1,2048", "--closed", "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(app, command, env={"COLUMNS": "220"})
    assert "jax, 1 environment: jax:jit in the closed loop leaves 2.0× on the table" in done.output
    assert "jax, 2,048 environments: no faster than jax:jit in the closed loop (0.80×)" in done.output


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--environments none", "not a list of positive numbers"),
        ("--contestants chainer", "no open form"),
        ("--algorithm rainbow", "no open form"),
        ("--set gama=0.9", "gama.*did you mean 'gamma'"),
        ("--set gamma", "not NAME=VALUE"),
        ("--set gamma=abc", "gamma: must be a number"),
        ("--set minibatches=0", "minibatches: must be at least 1"),
        ("--set activation=gelu", "activation: must be 'relu' or 'tanh'"),
        ("--set gamma=[0.9,0.99]", "one value, not several"),
        ("--set rollout_steps=33 --environments 3", "do not divide into"),
        ("--set environments=3", "an option of its own"),
        ("--dtype float16", "--dtype float16 is unknown"),
        ("--agents 3 --contestants jax,numpy", "numpy trains one agent at a time"),
        ("--learning 3 --closed --parts", "not with --closed, --parts"),
        ("--learning 3 --environments 4,8", "not with several --environments"),
    ],
)
def test_wrong_options_are_one_message(options: str, words: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(Problem, match=words):
        CliRunner().invoke(app, ["open", *options.split(), "--out", str(out)], catch_exceptions=False)
    assert not out.exists()


def test_settings_are_completed_as_in_a_study() -> None:
    """A rate without an end stays what it is; lists are widths of layers."""
    changes = {"learning_rate": 0.01, "hidden": [8, 8]}
    values = division.OpenRequest(("jax",), "ppo", "CartPole-v1", (4,), changes).values(4)
    assert (values.learning_rate_end, values.hidden, values.environments) == (0.01, (8, 8), 4)


def test_the_closed_division_is_measured_in_whole_rounds() -> None:
    """A rollout without its updates would look fast."""
    for algorithm, count, steps in (("ppo", 4, 20_480), ("ppo", 2048, 2048 * 128), ("dqn", 2048, 2048 * 64)):
        changes = {"rollout_steps": 128} if algorithm == "ppo" else {}
        values = shipped(algorithm, "CartPole-v1", environments=count, **changes)
        assert division.closed_steps(values) == steps
