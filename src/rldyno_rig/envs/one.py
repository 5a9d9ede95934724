"""One environment, in Python floats. It writes its steps into a journal: one write for all of a step."""

from __future__ import annotations

from struct import Struct

import numpy as np

from rldyno_rig.envs.classic import State, Task
from rldyno_rig.envs.environment import Environment, Step, generator
from rldyno_rig.envs.journal import ENDED, GOES_ON, STEP, TERMINATED, Journal


class OneEnvironment(Environment):
    observation_dtype = "float32"
    count = 1

    def __init__(self, task: Task, seed: int, max_episode_steps: int) -> None:
        self.observation_shape = (task.components,)
        self.actions = task.actions
        self.max_episode_steps = self._limit = max_episode_steps
        self._seed = seed
        self._advance = task.advance
        self._draw = task.draw
        # struct rounds to float32 as NumPy does, and writes a row in half the time of an array assignment.
        self._write = Struct("={}f{}".format(task.components, STEP)).pack_into
        self._write_state = Struct("={}f".format(task.components)).pack_into
        self._step_reward = task.reward
        self._reward = np.full(1, task.reward)
        self._no = np.zeros(1, bool)
        for fixed in (self._reward, self._no):
            fixed.flags.writeable = False
        self._terminated, self._truncated = np.zeros(1, bool), np.zeros(1, bool)
        self._obs, self._final_obs = (np.zeros((1, task.components), np.float32) for _ in range(2))
        self.keep(Journal(4, self.observation_shape, self.observation_dtype))

    def reset(self) -> np.ndarray:
        self._rng = generator(self._seed)
        self._state: State = self._draw(self._rng)
        self._length = 0
        self._obs, row = next(self._rows)
        self._write_state(row, 0, *self._state)
        return self._obs

    def keep(self, journal: Journal) -> bool:
        journal.first[:] = self._obs
        self._rows = journal.rows
        self._final_at = journal.final_at
        return True

    def step(self, actions: np.ndarray) -> Step:
        self._obs, row = next(self._rows)
        action = actions.item()
        state, terminated = self._advance(self._state, action)
        self._length = length = self._length + 1
        if terminated or length >= self._limit:
            return self._end(state, action, terminated, row)
        self._state = state
        self._write(row, 0, *state, action, self._step_reward, GOES_ON)
        return self._obs, self._reward, self._no, self._no, self._obs

    def _end(self, state: State, action: int, terminated: bool, row: memoryview) -> Step:
        self._final_obs[:] = state
        self._write_state(row, self._final_at, *state)
        self._terminated[0] = terminated
        self._truncated[0] = self._length >= self._limit
        self._state = self._draw(self._rng)
        self._length = 0
        self._write(row, 0, *self._state, action, self._step_reward, TERMINATED if terminated else ENDED)
        return self._obs, self._reward, self._terminated, self._truncated, self._final_obs
