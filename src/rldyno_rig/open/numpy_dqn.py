"""DQN of the open division in NumPy: n-step returns are made when they are sampled from a ring of steps."""

from __future__ import annotations

from typing import Any

import numpy as np

from rldyno_rig.algorithms.dqn import DqnBatch
from rldyno_rig.algorithms.replayed import first_update
from rldyno_rig.open.numpy_loop import Drawn, NumpyLoop
from rldyno_rig.open.problem import ROUND_STEPS, Problem, n_step_tables
from rldyno_rig.parts.schedules import linear
from rldyno_rig.spec import Params

GOES_ON, CUT_OFF, TERMINATED = 0, 1, 2


class NumpyDqn(NumpyLoop):
    def __init__(self, problem: Problem, weights: Params, first: np.ndarray) -> None:
        super().__init__(problem, weights, first)
        hyper, count, components = self.hyper, self.hyper.environments, self.task.components
        self.round_steps = ROUND_STEPS * count
        self.kept = max(1, hyper.capacity // count)
        self.ring = self.kept + hyper.n_step - 1
        self.obs, self.next_obs = (np.zeros((self.ring, count, components), np.float32) for _ in range(2))
        self.action = np.zeros((self.ring, count), np.int64)
        self.ended = np.zeros((self.ring, count), np.int8)
        self.at = self.complete = 0
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
        place = self.at % self.ring
        self.obs[place], self.next_obs[place], self.action[place] = obs, moved.T, action
        self.ended[place] = np.where(terminated, TERMINATED, np.where(late, CUT_OFF, GOES_ON))
        ended = terminated | late
        self.begin_again(moved, ended, resets)
        self.at += 1
        self.complete = max(self.complete, self.at - (self.hyper.n_step - 1))
        if len(ended) == 1 and ended[0]:
            # A window that an episode's end has closed is complete at once.
            self.complete = self.at

    def batch(self, numbers: np.ndarray) -> DqnBatch:
        """The transitions at these places of the memory."""
        n, count = self.hyper.n_step, self.hyper.environments
        size = min(self.complete, self.kept)
        place = (numbers * (size * count)).astype(np.int64)
        env, start = place % count, self.complete - size + place // count
        steps = (start[:, None] + np.arange(n)) % self.ring
        ends = self.ended[steps, env[:, None]]
        last = np.where(ends.any(1), (ends != GOES_ON).argmax(1), n - 1)
        rows = np.arange(len(place))
        discount = np.where(ends[rows, last] == TERMINATED, 0, self.discounts[last + 1])
        return DqnBatch(
            self.obs[steps[:, 0], env],
            self.action[steps[:, 0], env],
            self.returns[last + 1],
            discount.astype(self.dtype),
            self.next_obs[steps[rows, last], env],
        )
