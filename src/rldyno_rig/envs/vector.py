"""Many environments: all advanced at once in NumPy arrays."""

from __future__ import annotations

import numpy as np

from rldyno_rig.envs.classic import Task
from rldyno_rig.envs.environment import Environment, Step, generator


class VectorEnvironment(Environment):
    observation_dtype = "float32"

    def __init__(self, task: Task, count: int, seed: int, max_episode_steps: int) -> None:
        self.observation_shape = (task.components,)
        self.actions = task.actions
        self.count = count
        self.max_episode_steps = self._limit = max_episode_steps
        self._seed = seed
        self._advance_all = task.advance_all
        self._draw = task.draw
        self._states = np.zeros((task.components, count))
        self._obs, self._previous_obs, self._final_obs = (
            np.zeros((count, task.components), np.float32) for _ in range(3)
        )
        self._reward = np.full(count, task.reward)
        self._reward.flags.writeable = False

    def reset(self) -> np.ndarray:
        self._rngs = [generator(self._seed + i) for i in range(self.count)]
        self._states[:] = np.array([self._draw(rng) for rng in self._rngs]).T
        self._lengths = np.zeros(self.count, np.int64)
        self._swap()
        self._obs[:] = self._states.T
        return self._obs

    def step(self, actions: np.ndarray) -> Step:
        self._swap()
        terminated = self._advance_all(self._states, actions)
        self._lengths += 1
        truncated = self._lengths >= self._limit
        obs = final_obs = self._obs
        obs[:] = self._states.T
        ended = (terminated | truncated).nonzero()[0]
        if ended.size:
            final_obs = self._final_obs
            final_obs[:] = obs
            for i in ended.tolist():
                self._states[:, i] = self._draw(self._rngs[i])
            self._lengths[ended] = 0
            obs[ended] = self._states[:, ended].T
        return obs, self._reward, terminated, truncated, final_obs

    def _swap(self) -> None:
        self._obs, self._previous_obs = self._previous_obs, self._obs
