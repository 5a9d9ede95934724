"""What the open loops of NumPy share: the environments as arrays."""

from __future__ import annotations

from typing import Any, Dict, Tuple

import numpy as np

from rldyno_rig.backends import numpy_ as backend
from rldyno_rig.open.problem import ACTING, LEARNING, Problem, Tally
from rldyno_rig.spec import STORED, Params

Drawn = Dict[str, np.ndarray]


class NumpyLoop:
    """A loop without its algorithm."""

    round_steps: int

    def __init__(self, problem: Problem, weights: Params, first: np.ndarray) -> None:
        self.problem, self.task, self.hyper = problem, problem.task, problem.hyper
        self.dtype = np.dtype(STORED[problem.dtype])
        self.learner: Any = backend.make(problem.spec, weights, "eager", "cpu", problem.dtype)
        self.random = np.random.default_rng(problem.seed)
        self.state = first.astype(self.dtype)
        self.length = np.zeros(self.hyper.environments, np.int64)
        self.acts, self.learns = ACTING in problem.parts, LEARNING in problem.parts
        self.step = self.episodes = self.episode_steps = 0

    def run(self, rounds: int) -> None:
        for _ in range(rounds):
            self.round(self.draw())

    def tally(self) -> Tally:
        return Tally(self.episodes, self.episode_steps)

    def draw(self) -> Drawn:
        raise NotImplementedError

    def round(self, drawn: Drawn) -> np.ndarray:
        raise NotImplementedError

    def advance(self, action: np.ndarray) -> Tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(states before any is started again, terminated, late)."""
        moved, terminated = self.task.advance(np, tuple(self.state), action.astype(self.dtype))
        self.length += 1
        return np.stack(moved), terminated, self.length >= self.task.limit

    def begin_again(self, moved: np.ndarray, ended: np.ndarray, first: np.ndarray) -> None:
        if ended.any():
            self.episodes += int(ended.sum())
            self.episode_steps += int(self.length[ended].sum())
            self.length[ended] = 0
            moved = np.where(ended, first, moved)
        self.state = moved

    def first_of(self, time: int) -> np.ndarray:
        """[time, components, environments]."""
        low, high = (np.array(edge)[:, None] for edge in (self.task.low, self.task.high))
        shape = (time, self.task.components, self.hyper.environments)
        return self.random.uniform(low, high, shape).astype(self.dtype)
