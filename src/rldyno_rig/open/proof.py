"""How far an open loop is from the closed division in float64, given the same random numbers.

- environment: states after one step from random states, beside those of `envs.classic`;
- update: weights after one update on a synthetic batch, beside those of the reference learner;
- actions: the closed loop runs with the NumPy learner; its random numbers, first states included, are
  recorded and handed to the open loop, which must then take the same actions.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Tuple

import numpy as np

from rldyno_rig import algorithms, envs
from rldyno_rig.algorithms import synthetic_batch, update_rows
from rldyno_rig.algorithms.algorithm import Job
from rldyno_rig.algorithms.replayed import first_update
from rldyno_rig.clock import Clock
from rldyno_rig.envs import classic
from rldyno_rig.envs.environment import Step
from rldyno_rig.envs.vector import VectorEnvironment
from rldyno_rig.loading import load_backend
from rldyno_rig.open.job_file import OpenProof
from rldyno_rig.open.problem import ROUND_STEPS, Problem
from rldyno_rig.parts.exploration import BLOCK
from rldyno_rig.parts.replay import uniform_draws
from rldyno_rig.parts.streams import gumbel, streams
from rldyno_rig.recorder import Recorder
from rldyno_rig.reference.learner import ReferenceLearner
from rldyno_rig.schema import TRACED_STEPS
from rldyno_rig.spec import Params, draw_params
from rldyno_rig.trial_file import Budget

CLASSIC = {"CartPole": classic.CARTPOLE, "MountainCar": classic.MOUNTAIN_CAR}
STATES = 4096
LEARNING_RATE = 1e-3


class Recorded(NamedTuple):
    """A closed run, step by step."""

    weights: Params
    first: np.ndarray
    """[components, environments]."""
    after: np.ndarray
    """[step, components, environments]: the state that follows, the first of an episode where one ended."""
    actions: np.ndarray
    """[step, environments]."""


def compared(problem: Problem, form: Any) -> OpenProof:
    """`form` is the framework's module of the open division."""
    environment_error, ends_differ = environment(problem, form)
    recorded = closed_run(problem, TRACED_STEPS)
    taken = form.replay(problem, recorded.weights, recorded.first, _draws(problem, recorded))
    given = recorded.actions.reshape(-1)[:TRACED_STEPS]
    other = np.flatnonzero(np.asarray(taken).reshape(-1)[: len(given)] != given)
    first_other = int(other[0]) if len(other) else None
    return OpenProof(environment_error, ends_differ, update(problem, form), len(given), first_other)


def environment(problem: Problem, form: Any) -> Tuple[float, int]:
    """(largest relative difference after one step, steps that terminate in one of the two only)."""
    task = CLASSIC[problem.environment.partition("-")[0]]
    rng = np.random.default_rng(1)
    scale = np.array([[2.4], [2.0], [0.21], [2.0]]) if task.components == 4 else np.array([[0.9], [0.07]])
    middle = np.zeros((4, 1)) if task.components == 4 else np.array([[-0.3], [0.0]])
    states = middle + scale * rng.uniform(-1, 1, (task.components, STATES))
    actions = rng.integers(0, task.actions, STATES)
    moved, terminated = form.advance(problem, states.copy(), actions)
    expected = states.copy()
    ends = task.advance_all(expected, actions)
    error = np.abs(moved - expected) / np.maximum(np.abs(expected), 1.0)
    return float(error.max()), int(np.sum(np.asarray(terminated) != ends))


def update(problem: Problem, form: Any) -> float:
    """Largest difference of a weight after two updates; the second sees moments that are not zero."""
    spec = problem.spec
    weights = draw_params(spec, np.random.default_rng(2))
    learner = ReferenceLearner(spec, weights, "float64")
    rng = np.random.default_rng(3)
    batches = [synthetic_batch(spec, rng, "float64", "int64", update_rows(spec)) for _ in range(2)]
    for batch in batches:
        learner.update(batch, LEARNING_RATE)
    got = form.updated(problem, weights, batches, LEARNING_RATE)
    return max(float(np.max(np.abs(got[name] - learner.params[name]))) for name in learner.params)


class _Watched(VectorEnvironment):
    """Keeps the states that follow each step."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.after: List[np.ndarray] = []
        self.taken: List[np.ndarray] = []

    def step(self, actions: np.ndarray) -> Step:
        result = super().step(actions)
        self.taken.append(np.array(actions))
        self.after.append(self._states.copy())
        return result


def closed_run(problem: Problem, steps: int) -> Recorded:
    """The closed division's own loop, as `numpy:eager`, in float64."""
    hyper, spec = problem.hyper, problem.spec
    task = CLASSIC[problem.environment.partition("-")[0]]
    limit = envs.make(problem.environment, 1, 0).max_episode_steps
    watched = _Watched(task, hyper.environments, problem.seed, limit)
    random = streams(problem.seed)
    weights = draw_params(spec, random.weights)
    learner = load_backend("numpy_").make(spec, weights, "eager", "cpu", "float64")
    watched.reset()
    first = watched._states.copy()
    with tempfile.TemporaryDirectory() as directory:
        recorder = Recorder(Path(directory), Budget(steps=steps), Clock(), 0)
        job = Job(spec, watched, learner, random, recorder, np.dtype("float64"), np.dtype("int64"))
        algorithms.train(job)
    return Recorded(weights, first, np.stack(watched.after), np.stack(watched.taken))


def _draws(problem: Problem, recorded: Recorded) -> List[Dict[str, np.ndarray]]:
    """Of each round, by the names of the open forms."""
    made = {"ppo": _rollout_draws, "a2c": _rollout_draws, "dqn": _dqn_draws}
    return made[problem.algorithm](problem, recorded)


def _rollout_draws(problem: Problem, recorded: Recorded) -> List[Dict[str, np.ndarray]]:
    """The closed loop's streams, drawn again in its order."""
    hyper, random = problem.hyper, streams(problem.seed)
    time, rows = hyper.rollout_steps, hyper.rollout_steps * hyper.environments
    rounds = []
    for at in range(0, len(recorded.actions), time):
        noise = gumbel(random.explore, (time, hyper.environments, problem.task.actions), np.dtype("float64"))
        drawn = {"noise": noise.transpose(0, 2, 1), "resets": recorded.after[at : at + time]}
        if problem.algorithm == "ppo":
            drawn["order"] = np.stack([random.sample.permutation(rows) for _ in range(hyper.epochs)])
        rounds.append(drawn)
    return rounds


def _dqn_draws(problem: Problem, recorded: Recorded) -> List[Dict[str, np.ndarray]]:
    """The closed loop's streams, drawn again in its order; zeros after its end."""
    hyper, random, count = problem.hyper, streams(problem.seed), problem.hyper.environments
    rounds = -(-len(recorded.actions) // ROUND_STEPS)
    explore: List[np.ndarray] = []
    chosen: List[np.ndarray] = []
    while len(explore) * BLOCK < rounds * ROUND_STEPS:
        explore.append(random.explore.random((BLOCK, count)))
        chosen.append(random.explore.integers(0, problem.task.actions, (BLOCK, count)))
    sample = np.zeros((rounds * ROUND_STEPS, hyper.updates_per_train, hyper.batch_size))
    draws, next_train = uniform_draws(random.sample, hyper.batch_size), first_update(hyper, count)
    for at in range(len(recorded.actions)):
        if (at + 1) * count >= next_train:
            next_train += hyper.train_every
            sample[at] = [next(draws) for _ in range(hyper.updates_per_train)]
    resets = np.zeros((rounds * ROUND_STEPS, *recorded.after.shape[1:]))
    resets[: len(recorded.after)] = recorded.after
    whole = {"explore": np.concatenate(explore), "random": np.concatenate(chosen)}
    whole.update(resets=resets, sample=sample)
    return [
        {name: array[at : at + ROUND_STEPS] for name, array in whole.items()}
        for at in range(0, rounds * ROUND_STEPS, ROUND_STEPS)
    ]
