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

from rldyno_rig.algorithms import Job, loops
from rldyno_rig.batches import BATCHES
from rldyno_rig.clock import Clock
from rldyno_rig.parts.streams import streams
from rldyno_rig.recorder import Recorder
from rldyno_rig.spec import Spec, complete

COUNT = 2
STEPS = 48


def error(spec: Spec) -> float:
    """Worst error of what the loop of this algorithm put into its batches."""
    plain = _sized(spec)
    check = _advantages if spec.network.head == "actor_critic" else _transitions
    worst = max(check(plain, batch) for batch in collected(plain))
    if spec.network.head == "actor_critic":
        normalising = dataclasses.replace(plain.hyper, normalise_advantage=True)
        worst = max(
            worst, *(_normalised(batch) for batch in collected(dataclasses.replace(plain, hyper=normalising)))
        )
    return worst


class Script:
    """Two environments whose episodes end on fixed steps, some by termination, some by time limit.

    The observation is (environment, step, episode), so that a transition can be recognised in any batch.
    """

    observation_shape, observation_dtype, actions, count = (3,), "float32", 2, COUNT
    terminates = ({5, 19, 33}, {9, 30})
    cut_off = ({11, 27, 40}, {14, 22, 37})

    def __init__(self) -> None:
        self.time = 0
        self.episode = [0] * COUNT

    def reset(self) -> np.ndarray:
        return self.observe()

    def observe(self) -> np.ndarray:
        return np.array([[env, self.time, self.episode[env]] for env in range(COUNT)], np.float32)

    def step(self, actions: np.ndarray) -> Tuple[np.ndarray, ...]:
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
        self.batches: List[tuple] = []

    def put(self, *arrays: np.ndarray) -> tuple:
        return arrays

    def act(self, obs: np.ndarray, *noise: np.ndarray) -> Tuple[np.ndarray, ...]:
        action = np.zeros(len(obs), np.int64)
        if self.spec.network.head == "q":
            return (action,)
        return action, np.full(len(obs), -np.log(2.0)), value_of(obs.astype(np.float64))

    def update(self, batch: tuple, lr: float) -> tuple:
        self.batches.append(tuple(np.array(a) for a in batch))
        return 0.0, np.ones(len(batch[0]))

    def read(self, handle: tuple) -> tuple:
        return handle

    def sync_target(self) -> None:
        pass

    def drain(self) -> None:
        pass


def collected(spec: Spec) -> List[tuple]:
    """The batches that the loop of this algorithm hands to its learner on the script."""
    learner = ScriptedLearner(spec)
    budget: Dict[str, Any] = dict.fromkeys(("episodes", "wall_s", "stop_return", "stop_episodes"))
    with tempfile.TemporaryDirectory() as directory:
        recorder = Recorder(Path(directory), {"steps": COUNT * STEPS, **budget}, Clock(), 0)
        job = Job(spec, Script(), learner, streams(0), recorder, np.dtype("float64"), np.dtype("int64"))
        loops()[spec.algorithm](job)
    return learner.batches


def _sized(spec: Spec) -> Spec:
    """The same algorithm, sized to the script: every transition reaches a batch untouched."""
    changes: Dict[str, Any] = {"environments": COUNT, "convolutions": ()}
    if spec.network.head == "actor_critic":
        changes.update(rollout_steps=STEPS // 2, normalise_advantage=False)
        if spec.algorithm == "ppo":
            changes.update(minibatches=2, epochs=1)
    else:
        changes.update(
            batch_size=16, learning_starts=16, train_every=COUNT, updates_per_train=1, capacity=1024
        )
    hyper = dataclasses.replace(spec.hyper, **changes)
    return complete(spec.algorithm, hyper, Script.observation_shape, Script.observation_dtype, Script.actions)


def _transitions(spec: Spec, batch: tuple) -> float:
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
        worst = max(worst, float(np.max(np.abs(np.subtract(got, expected)))))
    return worst


def _advantages(spec: Spec, batch: tuple) -> float:
    """A_t = Σ_k (γλ)ᵏ δ_{t+k} until the episode or the rollout ends, by the sum itself; return = A + V."""
    gamma, decay = spec.hyper.gamma, spec.hyper.gamma * spec.hyper.gae_lambda
    rollout = spec.hyper.rollout_steps
    worst = 0.0
    for obs, advantage, ret in zip(*_named(spec.algorithm, batch)):
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
        worst = max(worst, abs(float(advantage) - expected), abs(float(ret) - expected - value))
    return worst


def _normalised(batch: tuple) -> float:
    """(A − mean) / (√(Σ(A − mean)²/n) + 1e-8) over the minibatch, with A = return − value."""
    obs, advantage, ret = _named("ppo" if len(batch) == 6 else "a2c", batch)
    raw = ret - value_of(obs.astype(np.float64))
    centred = raw - sum(raw) / len(raw)
    expected = centred / (np.sqrt(sum(centred**2) / len(raw)) + 1e-8)
    return float(np.max(np.abs(advantage - expected)))


def _named(algorithm: str, batch: tuple) -> Tuple[np.ndarray, np.ndarray, np.ndarray]:
    """obs, advantage and return of a batch."""
    named = BATCHES[algorithm](*batch)
    return named.obs, named.advantage, named.ret
