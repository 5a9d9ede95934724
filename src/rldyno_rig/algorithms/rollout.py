"""Steps of several environments under the current policy, with advantages: what A2C and PPO learn from."""

from __future__ import annotations

from typing import Any, Dict, NamedTuple, Optional

import numpy as np

from rldyno_rig.algorithms.algorithm import Job
from rldyno_rig.clock import ACT, ENVIRONMENT, OTHER, STORE, TRANSFER
from rldyno_rig.parts.advantage import estimator
from rldyno_rig.parts.episodes import Episodes
from rldyno_rig.parts.streams import gumbel
from rldyno_rig.schema import TRACED_STEPS

PROOF: Dict[str, Any] = {"entropy_coefficient": 0.02}
"""Proofs need every term of the loss, and the entropy's weight is 0 by default."""


class Rollout(NamedTuple):
    """One row per step and environment."""

    obs: np.ndarray
    action: np.ndarray
    log_prob: np.ndarray
    advantage: np.ndarray
    ret: np.ndarray
    value: np.ndarray


class Collector:
    def __init__(self, job: Job) -> None:
        self.job = job
        hyper, network = job.spec.hyper, job.spec.network
        time, count = hyper.rollout_steps, job.env.count
        self.obs = np.zeros((time, count, *network.observation_shape), network.observation_dtype)
        self.action = np.zeros((time, count), job.index_dtype)
        self.log_prob, self.value, self.reward = (np.zeros((time, count), job.dtype) for _ in range(3))
        self.bootstrap = np.zeros((time, count), job.dtype)
        self.ended = np.zeros((time, count), bool)
        self.advantages = estimator(self.reward, self.value, self.bootstrap, self.ended)
        # Writing into a row that exists takes 0.11 µs, `array[t] = …` 0.19.
        self.rows = list(zip(self.obs, self.action, self.log_prob, self.value, self.reward))
        self.no_noise = np.zeros((count, network.actions), job.dtype)
        self.episodes = Episodes.of(job.env, job.recorder)
        self.step = 0
        self.valued = 0
        self.current = job.env.reset()
        job.recorder.start()
        job.recorder.learns(0, job.recorder.clock.started)

    def collect(self) -> Optional[Rollout]:
        """One rollout, flattened to [time · environment, …]; None when a budget ended the trial within it.

        A budget of steps is spent in whole rollouts.
        """
        env, learner, recorder, hyper = self.job.env, self.job.learner, self.job.recorder, self.job.spec.hyper
        put, act, mark = learner.put, learner.act, recorder.clock.mark
        count = env.count
        noise = gumbel(self.job.streams.explore, (hyper.rollout_steps, *self.no_noise.shape), self.job.dtype)
        self.ended[:] = False
        self.bootstrap[:] = 0
        count_rewards = self.episodes.count
        obs = self.current
        for t, (row, noise_row) in enumerate(zip(self.rows, noise)):
            obs_row, action_row, log_prob_row, value_row, reward_row = row
            mark(STORE)
            placed = put(obs, noise_row)
            mark(TRANSFER)
            action, log_prob, value = act(*placed)
            mark(ACT)
            obs_row[...], action_row[...], log_prob_row[...], value_row[...] = obs, action, log_prob, value
            mark(STORE)
            obs, reward, terminated, truncated, final_obs = env.step(action)
            now = mark(ENVIRONMENT)
            if self.step < TRACED_STEPS:
                recorder.trace(self.step, action)
            self.step += count
            reward_row[...] = reward
            count_rewards(reward)
            if final_obs is not obs:
                np.logical_or(terminated, truncated, out=self.ended[t])
                self.episodes.ended(self.step, now, terminated, truncated)
                cut_off = truncated & ~terminated
                if cut_off.any():
                    mark(STORE)
                    self.bootstrap[t] = np.where(cut_off, self.values(final_obs), 0)
            if recorder.reason is not None:
                return None
            if now >= recorder.next_beat:
                recorder.beat(now, self.step, None)
                mark(OTHER)
        self.current = obs
        mark(STORE)
        last_value = self.values(obs)
        advantage = self.advantages(last_value, hyper.gamma, hyper.gae_lambda)
        rollout = Rollout(self.obs, self.action, self.log_prob, advantage, advantage + self.value, self.value)
        flat = Rollout(*(a.reshape(-1, *a.shape[2:]) for a in rollout))
        mark(STORE)
        return flat

    @property
    def acts(self) -> int:
        """Calls of the learner's act: one per step of all environments, and those for values alone."""
        return self.step // self.job.env.count + self.valued

    def values(self, obs: np.ndarray) -> np.ndarray:
        """V of one observation per environment, in the shape of an ordinary act: nothing compiles twice."""
        self.valued += 1
        placed = self.job.learner.put(obs, self.no_noise)
        self.job.recorder.clock.mark(TRANSFER)
        value = self.job.learner.act(*placed)[2]
        self.job.recorder.clock.mark(ACT)
        return value
