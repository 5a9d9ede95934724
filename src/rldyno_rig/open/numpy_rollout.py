"""PPO and A2C of the open division in NumPy."""

from __future__ import annotations

from typing import List, NamedTuple, Tuple

import numpy as np

from rldyno_rig.algorithms.a2c import A2cBatch
from rldyno_rig.algorithms.ppo import PpoBatch, minibatches
from rldyno_rig.algorithms.rollout import Rollout
from rldyno_rig.open.numpy_loop import Drawn, NumpyLoop
from rldyno_rig.open.problem import Problem
from rldyno_rig.parts.advantage import gae, normalise
from rldyno_rig.parts.schedules import linear
from rldyno_rig.parts.streams import gumbel
from rldyno_rig.spec import Params


class Kept(NamedTuple):
    """What a rollout keeps of each step, [time, environments, …]."""

    obs: np.ndarray
    action: np.ndarray
    log_prob: np.ndarray
    value: np.ndarray
    ended: np.ndarray
    bootstrap: np.ndarray
    """Value of the state that a time limit cut off, else 0."""


class NumpyRollouts(NumpyLoop):
    """Rollouts of one policy; how it learns from them is the algorithm's part."""

    def __init__(self, problem: Problem, weights: Params, first: np.ndarray) -> None:
        super().__init__(problem, weights, first)
        hyper = self.hyper
        self.rate_at = linear(hyper.learning_rate, hyper.learning_rate_end, hyper.schedule_steps)
        self.rows = self.round_steps = hyper.environments * hyper.rollout_steps

    def draw(self) -> Drawn:
        time = self.hyper.rollout_steps
        noise = gumbel(self.random, (time, self.task.actions, self.hyper.environments), self.dtype)
        return {"noise": noise, "resets": self.first_of(time)}

    def round(self, drawn: Drawn) -> np.ndarray:
        rate = self.rate_at(self.step)
        kept = self.collect(drawn)
        if self.learns:
            self.learn(self.rollout(kept), drawn, rate)
        self.step += self.rows
        return kept.action

    def learn(self, rollout: Rollout, drawn: Drawn, rate: float) -> None:
        raise NotImplementedError

    def collect(self, drawn: Drawn) -> Kept:
        time, count = self.hyper.rollout_steps, self.hyper.environments
        kept: List[Tuple[np.ndarray, ...]] = []
        bootstrap = np.zeros((time, count), self.dtype)
        noise = np.ascontiguousarray(drawn["noise"].transpose(0, 2, 1))
        for t in range(time):
            obs = self.state.T.astype(np.float32)
            action, log_prob, value = self.act(obs, noise[t])
            moved, terminated, late = self.advance(action)
            ended = terminated | late
            cut_off = late & ~terminated
            if self.learns and cut_off.any():
                bootstrap[t] = np.where(cut_off, self.value(moved), 0)
            kept.append((obs, action, log_prob, value, ended))
            self.begin_again(moved, ended, drawn["resets"][t])
        obs, action, log_prob, value, ended = map(np.stack, zip(*kept))
        return Kept(obs, action, log_prob, value, ended, bootstrap)

    def act(self, obs: np.ndarray, noise: np.ndarray) -> Tuple[np.ndarray, ...]:
        """Actions, their log-probabilities and values."""
        if not self.acts:
            none = np.zeros(len(obs), self.dtype)
            return noise.argmax(1), none, none
        return tuple(np.array(part) for part in self.learner.act(obs, noise))

    def value(self, states: np.ndarray) -> np.ndarray:
        none = np.zeros((states.shape[1], self.task.actions), self.dtype)
        return np.array(self.learner.act(states.T.astype(np.float32), none)[2])

    def rollout(self, kept: Kept) -> Rollout:
        reward = np.full_like(kept.value, self.task.reward)
        decays = self.hyper.gamma, self.hyper.gae_lambda
        last = self.value(self.state)
        advantage = gae(reward, kept.value, kept.bootstrap, kept.ended, last, *decays)
        parts = (kept.obs, kept.action, kept.log_prob, advantage, advantage + kept.value, kept.value)
        return Rollout(*(a.reshape(-1, *a.shape[2:]) for a in parts))


class NumpyPpo(NumpyRollouts):
    def draw(self) -> Drawn:
        order = np.stack([self.random.permutation(self.rows) for _ in range(self.hyper.epochs)])
        return {**super().draw(), "order": order}

    def learn(self, rollout: Rollout, drawn: Drawn, rate: float) -> None:
        hyper = self.hyper
        stacked = minibatches(rollout, drawn["order"].reshape(hyper.epochs * hyper.minibatches, -1), hyper)
        for batch in zip(*stacked):
            self.learner.update(PpoBatch(*batch), rate)


class NumpyA2c(NumpyRollouts):
    def learn(self, rollout: Rollout, drawn: Drawn, rate: float) -> None:
        advantage = rollout.advantage
        if self.hyper.normalise_advantage:
            advantage = normalise(advantage)
        self.learner.update(A2cBatch(rollout.obs, rollout.action, advantage, rollout.ret), rate)
