"""The open division computes what the closed one does, in every framework that has a form of it."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rldyno_rig
from rldyno.division.measure import MANY_AGENTS, OPEN_FORMS, PROOF_SEED, ask, prove
from rldyno.toolchains.catalogue import toolchain
from rldyno.toolchains.resolve import Interpreter
from rldyno_rig import hyper
from rldyno_rig.open.curve import Goal
from rldyno_rig.open.job_file import OpenFound, OpenJob, OpenLearned
from rldyno_rig.open.problem import PARTS, Problem, shipped
from rldyno_rig.open.proof import closed_run
from rldyno_rig.schema import TRACED_STEPS

ENVIRONMENTS = ("CartPole-v1", "MountainCar-v0")
FORMS = [(framework, algorithm) for framework, forms in OPEN_FORMS.items() for algorithm in forms]
# Small, and learning from early on, so that every action depends on many updates.
CHANGES: dict[str, dict[str, Any]] = {
    "ppo": {"hidden": (32, 32), "entropy_coefficient": 0.02, "value_clip": True},
    "a2c": {"hidden": (32, 32), "entropy_coefficient": 0.02},
    "dqn": {"hidden": (32, 32), "learning_starts": 100, "target_sync": 100, "epsilon_steps": 200},
}
SEVERAL = {
    **CHANGES["dqn"],
    "environments": 4,
    "train_every": 6,
    "learning_starts": 101,
    "capacity": 301,
    "updates_per_train": 2,
    "learning_rate": 3e-3,
}
"""DQN where updates follow one or two steps of the environments in turn, and the memory wraps around."""
N_STEPS = (1, 3, 12)
"""Many episodes of CartPole are shorter than 12 steps."""
EXACT = {"numpy"}
"""Frameworks with the sines of the closed division."""


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("environment", ENVIRONMENTS)
@pytest.mark.parametrize(("framework", "algorithm"), FORMS)
def test_an_open_form_equals_the_closed_division(
    framework: str, algorithm: str, environment: str, interpreters: dict[str, Interpreter]
) -> None:
    values = shipped(algorithm, environment, **CHANGES[algorithm])
    proof = prove(framework, algorithm, environment, values, interpreters[framework])
    assert proof.environment_error <= (0 if framework in EXACT else 2e-15)
    assert proof.ends_differ == 0
    assert proof.update_error <= 1e-10
    assert (proof.actions, proof.first_other) == (2000, None)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("n_step", N_STEPS)
@pytest.mark.parametrize("framework", [name for name, forms in OPEN_FORMS.items() if "dqn" in forms])
def test_open_dqn_of_several_environments_learns_from_what_the_closed_one_does(
    framework: str, n_step: int, interpreters: dict[str, Interpreter]
) -> None:
    """Updates at the same steps, from the same transitions of n steps."""
    values = shipped("dqn", "CartPole-v1", **SEVERAL, n_step=n_step)
    proof = prove(framework, "dqn", "CartPole-v1", values, interpreters[framework])
    assert (proof.actions, proof.first_other) == (2000, None)


@pytest.mark.parametrize("n_step", N_STEPS)
def test_actions_show_what_the_memory_holds(n_step: int) -> None:
    """Else equal actions would prove little: a policy that always pushes to the left takes them, too."""
    taken = []
    for capacity in (SEVERAL["capacity"], SEVERAL["capacity"] + 4):
        values = shipped("dqn", "CartPole-v1", **{**SEVERAL, "capacity": capacity}, n_step=n_step)
        task = Problem("dqn", "CartPole-v1", values, dtype="float64", seed=PROOF_SEED)
        taken.append(closed_run(task, TRACED_STEPS).actions)
    assert np.mean(taken[0] != taken[1]) > 0.1


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("algorithm", ["dqn", "a2c"])
@pytest.mark.parametrize("framework", OPEN_FORMS)
def test_every_open_form_is_measured_in_parts(
    framework: str, algorithm: str, interpreters: dict[str, Interpreter]
) -> None:
    """Loops without learning and without acting run; with the rest the parts sum to the time of a step."""
    numbers = hyper.to_json(shipped(algorithm, "CartPole-v1", **CHANGES[algorithm]))
    job = OpenJob(
        toolchain(framework).backend,
        algorithm,
        "CartPole-v1",
        numbers,
        seconds=0.2,
        repeats=2,
        parts=True,
    )
    found = OpenFound.from_json(ask(job, interpreters[framework]))
    assert found.parts_us is not None
    assert tuple(found.parts_us) == PARTS
    assert sum(found.parts_us.values()) == pytest.approx(1e6 / found.best)


# Steps within which an agent must learn. Twelve seeds of DQN in JAX took 11 to 56 thousand to 300.
LEARNING_STEPS = {"ppo": 60_000, "dqn": 100_000, "a2c": 150_000}


def learned(
    algorithm: str, mean_return: float, agents: int, interpreter: Interpreter, **changes: Any
) -> list[int | None]:
    """Steps to this mean return over 20 episodes, of each agent; None: never."""
    values = shipped(algorithm, "CartPole-v1", **changes)
    goal = Goal(mean_return, 20, LEARNING_STEPS[algorithm])
    backend, numbers = toolchain(interpreter.framework).backend, hyper.to_json(values)
    job = OpenJob(backend, algorithm, "CartPole-v1", numbers, agents=agents, learn=goal)
    curves = OpenLearned.from_json(ask(job, interpreter)).curves
    return [goal.reached(curve, 1.0) for curve in curves]


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("framework", "algorithm"), FORMS)
def test_an_open_form_learns_cartpole(
    framework: str, algorithm: str, interpreters: dict[str, Interpreter]
) -> None:
    """With random numbers of its own, in whose place the proof of its actions has recorded ones. Chance
    alone has 22 steps an episode.

    Whether it learns as fast as the closed division takes more seeds: `rldyno open --learning 12`.
    """
    assert None not in learned(algorithm, 150, 1, interpreters[framework])


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("algorithm", OPEN_FORMS["jax"])
def test_three_seeds_learn_and_a_form_that_is_broken_does_not(
    algorithm: str, interpreters: dict[str, Interpreter]
) -> None:
    """Without a discounted future no action is better than another."""
    assert None not in learned(algorithm, 300, 3, interpreters["jax"])
    assert learned(algorithm, 150, 1, interpreters["jax"], gamma=0.0) == [None]


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("algorithm", OPEN_FORMS["jax"])
def test_agents_side_by_side_are_single_runs(algorithm: str, interpreters: dict[str, Interpreter]) -> None:
    """Episodes that ended, after every few hundred steps, in float64: those of one seed alone."""
    values = shipped(algorithm, "CartPole-v1", **CHANGES[algorithm])
    goal, numbers = Goal(500.0, 1000, 2000), hyper.to_json(values)
    job = OpenJob(
        toolchain("jax").backend,
        algorithm,
        "CartPole-v1",
        numbers,
        dtype="float64",
        agents=2,
        seed=4,
        learn=goal,
    )
    together = OpenLearned.from_json(ask(job, interpreters["jax"])).curves
    alone = [replace(job, agents=1, seed=seed) for seed in (4, 5)]
    apart = [OpenLearned.from_json(ask(one, interpreters["jax"])).curves[0] for one in alone]
    assert list(together) == apart
    assert apart[0] != apart[1]
    assert apart[0].episodes[-1] > 20


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("algorithm", ["dqn", "a2c"])
@pytest.mark.parametrize("framework", [name for name in OPEN_FORMS if name not in MANY_AGENTS])
def test_runs_one_after_the_other_are_single_runs(
    framework: str, algorithm: str, interpreters: dict[str, Interpreter]
) -> None:
    """Though they share compiled programs."""
    values = shipped(algorithm, "CartPole-v1", **CHANGES[algorithm])
    backend, numbers = toolchain(framework).backend, hyper.to_json(values)
    job = OpenJob(backend, algorithm, "CartPole-v1", numbers, seed=4, runs=2, learn=Goal(500.0, 1000, 2000))
    both = OpenLearned.from_json(ask(job, interpreters[framework])).curves
    alone = OpenLearned.from_json(ask(replace(job, seed=5, runs=1), interpreters[framework])).curves
    assert both[1:] == alone
    assert both[0] != both[1]
    assert both[0].episodes[-1] > 20


RANDOM = """
import json, sys
sys.path.insert(0, sys.argv[1])
import numpy as np
import tensorflow as tf
from rldyno_rig.open.tensorflow_loops import draw_bits, uniform

@tf.function(jit_compile=True)
def drawn(at):
    return [uniform(draw_bits(seed, at, 20000), np.dtype("float64")) for seed in (0, 1)]

print(json.dumps([[row.numpy().tolist() for row in drawn(tf.constant(at))] for at in (0, 1)]))
"""


def test_random_numbers_of_tensorflow(interpreters: dict[str, Interpreter]) -> None:
    """Proofs hand recorded numbers to the loops: only this looks at what a loop draws by itself.

    Four sequences (two rounds of two seeds) are uniform, without correlation between neighbours, and no two
    share more numbers than chance lets them, wherever these stand. Limits are six standard errors.
    """
    source = str(Path(rldyno_rig.__file__).parents[1])
    command = [str(interpreters["tensorflow"].path), "-I", "-c", RANDOM, source]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    rows = np.array(json.loads(done.stdout.splitlines()[-1])).reshape(4, -1)
    limit = 6 / np.sqrt(rows.shape[1])
    assert rows.min() > 0
    assert rows.max() < 1
    counts = np.array([np.histogram(row, 10, (0, 1))[0] for row in rows]) / rows.shape[1]
    assert np.abs(counts - 0.1).max() < 0.3 * limit
    for i, one in enumerate(rows):
        assert abs(np.corrcoef(one[1:], one[:-1])[0, 1]) < limit
        for other in rows[:i]:
            # By chance 20,000² / 2²³: about 48 of 20,000.
            assert np.intersect1d(one, other).size < 100
