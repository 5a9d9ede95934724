"""DQN of the open division in NumPy: n-step returns are made when they are sampled from a ring of steps."""

from __future__ import annotations

from typing import Any

import numpy as np

from rldyno_rig.algorithms.dqn import DqnBatch
from rldyno_rig.algorithms.replayed import first_update
from rldyno_rig.open.numpy_loop import Drawn, NumpyLoop
from rldyno_rig.open.problem import ROUND_STEPS, Problem, n_step_tables
from rldyno_rig.open.windows import CUT_OFF, GOES_ON, TERMINATED, ring_of, size_of, stored, window
from rldyno_rig.parts.schedules import linear
from rldyno_rig.spec import Params


class NumpyDqn(NumpyLoop):
    def __init__(self, problem: Problem, weights: Params, first: np.ndarray) -> None:
        super().__init__(problem, weights, first)
        hyper, count, components = self.hyper, self.hyper.environments, self.task.components
        self.round_steps = ROUND_STEPS * count
        self.ring = ring_of(hyper)
        shape = (self.ring.steps, count)
        self.obs, self.next_obs = (np.zeros((*shape, components), np.float32) for _ in range(2))
        self.action = np.zeros(shape, np.int64)
        self.waits = np.zeros(self.ring.waits, np.int64)
        self.ended = np.zeros(shape, np.int8)
        self.at = self.added = self.waiting = 0
        self.next_train, self.next_sync = first_update(hyper, count), hyper.target_sync
        self.returns, self.discounts = (table.astype(self.dtype) for table in n_step_tables(problem))
        self.rate_at = linear(hyper.learning_rate, hyper.learning_rate_end, hyper.schedule_steps)
        self.epsilon_at = linear(hyper.epsilon_start, hyper.epsilon_end, max(1, hyper.epsilon_steps))

    def draw(self) -> Drawn:
        hyper, shape = self.hyper, (ROUND_STEPS, self.hyper.environments)
        return {
            "explore": self.random.random(shape),
            "random": self.random.integers(0, self.task.actions, shape),
            "resets": self.first_of(ROUND_STEPS),
            "sample": self.random.random((ROUND_STEPS, hyper.updates_per_train, hyper.batch_size)),
        }

    def round(self, drawn: Drawn) -> np.ndarray:
        names = ("explore", "random", "resets", "sample")
        return np.stack([self.one(*numbers) for numbers in zip(*(drawn[name] for name in names))])

    def one(self, explore: Any, random: Any, resets: Any, sample: Any) -> np.ndarray:
        """A step, and the update that may be due."""
        hyper, learner, count = self.hyper, self.learner, self.hyper.environments
        obs = self.state.T.astype(np.float32)
        greedy = explore >= (self.epsilon_at(self.step) if self.acts else 1)
        action: np.ndarray = np.where(greedy, learner.act(obs)[0], random) if greedy.any() else random
        self.store(obs, action, resets)
        self.step += count
        if self.learns and self.step >= self.next_train:
            self.next_train += hyper.train_every
            rate = self.rate_at(self.step)
            for numbers in sample:
                learner.update(self.batch(numbers), rate)
        if self.step >= self.next_sync:
            self.next_sync += hyper.target_sync
            learner.sync_target()
        return action

    def store(self, obs: np.ndarray, action: np.ndarray, resets: np.ndarray) -> None:
        moved, terminated, late = self.advance(action)
        place, ended = self.at % self.ring.steps, terminated | late
        self.obs[place], self.next_obs[place], self.action[place] = obs, moved.T, action
        self.ended[place] = np.where(terminated, TERMINATED, np.where(late, CUT_OFF, GOES_ON))
        added, waiting, waits = stored(np, self.ring, self.added, self.waiting, ended, self.length)
        self.added, self.waiting = int(added), int(waiting)
        if self.ring.n_step > 1:
            self.waits[place * len(waits) :][: len(waits)] = waits
        self.begin_again(moved, ended, resets)
        self.at += 1

    def batch(self, numbers: np.ndarray) -> DqnBatch:
        """The transitions at these places of the memory."""
        obs, action, ended, next_obs = (
            rows.reshape(self.ring.rows, *rows.shape[2:])
            for rows in (self.obs, self.action, self.ended, self.next_obs)
        )
        place = (numbers * size_of(np, self.ring, self.added)).astype(np.int64)
        counts = self.at, self.added, self.waiting
        first, last, steps = window(
            np, self.ring, counts, place, self.waits.__getitem__, lambda row: ended[row] == GOES_ON
        )
        discount = np.where(ended[last] == TERMINATED, 0, self.discounts[steps])
        return DqnBatch(
            obs[first], action[first], self.returns[steps], discount.astype(self.dtype), next_obs[last]
        )
