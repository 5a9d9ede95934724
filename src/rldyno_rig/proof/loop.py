"""Does the shared loop hand the right batches to the learner? Checked on a scripted environment.

The learner here is a recorder with known values, so that every batch the loop makes can be worked out from
the definition of the return: rewards until the end of the episode, plus the value of what follows unless the
episode was terminated. A loop that treats a time limit as a termination fails here.
"""

from __future__ import annotations

import dataclasses
import tempfile
from pathlib import Path
from typing import Any, Dict, List, Tuple

import numpy as np

from rldyno_rig import algorithms
from rldyno_rig.algorithms import ALGORITHMS
from rldyno_rig.algorithms.algorithm import Job
from rldyno_rig.clock import Clock
from rldyno_rig.envs.environment import Environment, Step
from rldyno_rig.parts.streams import streams
from rldyno_rig.proof.rung import largest
from rldyno_rig.recorder import Recorder
from rldyno_rig.spec import Spec
from rldyno_rig.trial_file import Budget

COUNT = 2
STEPS = 48
SIZES: Dict[str, Any] = {
    "environments": COUNT,
    "convolutions": (),
    "batch_size": 16,
    "capacity": 1024,
    "learning_starts": 16,
    "train_every": COUNT,
    "updates_per_train": 1,
    "rollout_steps": STEPS // 2,
    "normalise_advantage": False,
    "minibatches": 2,
    "epochs": 1,
}
"""Of those that an algorithm has: with them every transition of the script reaches a batch untouched."""


def error(spec: Spec) -> float:
    """Worst error of what the loop of this algorithm put into its batches."""
    plain = _sized(spec)
    if "advantage" not in spec.batch._fields:
        return largest(*(_transitions(plain, batch) for batch in collected(plain)))
    normalising = dataclasses.replace(plain, hyper=dataclasses.replace(plain.hyper, normalise_advantage=True))
    return largest(
        *(_advantages(plain, batch) for batch in collected(plain)),
        *(_normalised(batch) for batch in collected(normalising)),
    )


class Script(Environment):
    """Two environments whose episodes end on fixed steps, some by termination, some by time limit.

    The observation is (environment, step, episode), so that a transition can be recognised in any batch.
    """

    observation_shape, observation_dtype, actions, count = (3,), "float32", 2, COUNT
    max_episode_steps = None
    terminates = ({5, 19, 33}, {9, 30})
    cut_off = ({11, 27, 40}, {14, 22, 37})

    def __init__(self) -> None:
        self.time = 0
        self.episode = [0] * COUNT

    def reset(self) -> np.ndarray:
        return self.observe()

    def observe(self) -> np.ndarray:
        return np.array([[env, self.time, self.episode[env]] for env in range(COUNT)], np.float32)

    def step(self, actions: np.ndarray) -> Step:
        reward = np.array([reward_of(env, self.time) for env in range(COUNT)])
        self.time += 1
        terminated = np.array([self.time in self.terminates[env] for env in range(COUNT)])
        truncated = np.array([self.time in self.cut_off[env] for env in range(COUNT)])
        final_obs = self.observe()
        if not (terminated | truncated).any():
            return final_obs, reward, terminated, truncated, final_obs
        for env in np.flatnonzero(terminated | truncated):
            self.episode[env] += 1
        return self.observe(), reward, terminated, truncated, final_obs


def reward_of(env: int, time: int) -> float:
    return 1.0 + 0.5 * env - 0.03125 * time


def value_of(obs: np.ndarray) -> np.ndarray:
    """The scripted critic: any injective function of the observation will do."""
    return 0.25 * obs[:, 0] + 0.0625 * obs[:, 1] + 0.5 * obs[:, 2] + 1


class ScriptedLearner:
    """Values by `value_of`, uniform policy; keeps every batch it is given."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.batches: List[Any] = []

    def put(self, *arrays: np.ndarray) -> Tuple[np.ndarray, ...]:
        return arrays

    def act(self, obs: np.ndarray, *noise: np.ndarray) -> Tuple[np.ndarray, ...]:
        known = {
            "action": np.zeros(len(obs), np.int64),
            "log_prob": np.full(len(obs), -np.log(2.0)),
            "value": value_of(obs.astype(np.float64)),
        }
        return tuple(known[name] for name in self.spec.network.act_returns)

    def update(self, batch: Any, lr: float) -> Any:
        self.batches.append(self.spec.batch(*(np.array(a) for a in batch)))
        return 0.0, np.ones(len(batch[0]))

    def read(self, handle: Any) -> Any:
        return handle

    def sync_target(self) -> None:
        pass

    def drain(self) -> None:
        pass


def collected(spec: Spec) -> List[Any]:
    """The batches that the loop of this algorithm hands to its learner on the script."""
    learner = ScriptedLearner(spec)
    called: Any = learner  # it has only what a loop calls
    with tempfile.TemporaryDirectory() as directory:
        recorder = Recorder(Path(directory), Budget(steps=COUNT * STEPS), Clock(), 0)
        job = Job(spec, Script(), called, streams(0), recorder, np.dtype("float64"), np.dtype("int64"))
        algorithms.train(job)
    return learner.batches


def _sized(spec: Spec) -> Spec:
    """The same algorithm, sized to the script."""
    changes = {name: value for name, value in SIZES.items() if hasattr(spec.hyper, name)}
    hyper = dataclasses.replace(spec.hyper, **changes)
    return ALGORITHMS[spec.algorithm].spec(
        hyper, Script.observation_shape, Script.observation_dtype, Script.actions
    )


def _transitions(spec: Spec, batch: Any) -> float:
    """r = Σ γᵏ r_k over at most n steps of one episode; discount γᵏ, or 0 where it was terminated."""
    gamma, n, worst = spec.hyper.gamma, spec.hyper.n_step, 0.0
    for obs, _, reward, discount, next_obs in zip(*batch[:5]):
        env, time, episode = (int(x) for x in obs)
        expected_reward, weight = 0.0, 1.0
        for k in range(n):
            expected_reward += weight * reward_of(env, time + k)
            weight *= gamma
            ended = time + k + 1 in Script.terminates[env] or time + k + 1 in Script.cut_off[env]
            if ended:
                break
        terminated = time + k + 1 in Script.terminates[env]
        expected = [expected_reward, 0.0 if terminated else weight, env, time + k + 1, episode]
        got = [reward, discount, *next_obs]
        worst = largest(worst, float(np.max(np.abs(np.subtract(got, expected)))))
    return worst


def _advantages(spec: Spec, batch: Any) -> float:
    """A_t = Σ_k (γλ)ᵏ δ_{t+k} until the episode or the rollout ends, by the sum itself; return = A + V."""
    gamma, decay = spec.hyper.gamma, spec.hyper.gamma * spec.hyper.gae_lambda
    rollout = spec.hyper.rollout_steps
    worst = 0.0
    for obs, advantage, ret in zip(batch.obs, batch.advantage, batch.ret):
        env, time, episode = (int(x) for x in obs)
        expected, weight = 0.0, 1.0
        for t in range(time, (time // rollout + 1) * rollout):
            terminated, cut_off = t + 1 in Script.terminates[env], t + 1 in Script.cut_off[env]
            here, after = (value_of(np.array([[env, at, episode]]))[0] for at in (t, t + 1))
            delta = reward_of(env, t) + gamma * (0.0 if terminated else after) - here
            expected += weight * delta
            weight *= decay
            if terminated or cut_off:
                break
        value = value_of(obs[None].astype(np.float64))[0]
        worst = largest(worst, abs(float(advantage) - expected), abs(float(ret) - expected - value))
    return worst


def _normalised(batch: Any) -> float:
    """(A − mean) / (√(Σ(A − mean)²/n) + 1e-8) over the minibatch, with A = return − value."""
    raw = batch.ret - value_of(batch.obs.astype(np.float64))
    centred = raw - sum(raw) / len(raw)
    expected = centred / (np.sqrt(sum(centred**2) / len(raw)) + 1e-8)
    return float(np.max(np.abs(batch.advantage - expected)))
