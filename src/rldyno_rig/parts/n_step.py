"""Transitions over n steps of one episode."""

from __future__ import annotations

from collections import deque
from operator import mul
from typing import Deque, Iterator, List, Tuple

import numpy as np

Transition = Tuple[np.ndarray, int, float, float, np.ndarray]


class NStep:
    """Σ_{k<n} γᵏ r_k, and the discount γⁿ · (1 − terminated) of the rest; shorter where an episode ends."""

    def __init__(self, n: int, gamma: float, environments: int) -> None:
        self.n = n
        self.powers = [gamma**k for k in range(n + 1)]
        # Per environment, oldest first: transitions that still wait for rewards, and those rewards.
        self.starts: List[Deque[Tuple[np.ndarray, int]]] = [deque() for _ in range(environments)]
        self.rewards: List[Deque[float]] = [deque() for _ in range(environments)]

    def push(
        self,
        obs: np.ndarray,
        action: np.ndarray,
        reward: np.ndarray,
        terminated: np.ndarray,
        truncated: np.ndarray,
        final_obs: np.ndarray,
        some_ended: bool = True,
    ) -> Iterator[Transition]:
        """Take one step of every environment, give the transitions that it completes.

        `some_ended` False promises that no episode ended with this step.
        """
        actions, rewards = action.tolist(), reward.tolist()
        for env, (starts, waiting) in enumerate(zip(self.starts, self.rewards)):
            starts.append((obs[env].copy(), actions[env]))
            waiting.append(rewards[env])
            ended = some_ended and (terminated[env] or truncated[env])
            while starts and (ended or len(starts) == self.n):
                total = sum(map(mul, self.powers, waiting))
                discount = 0.0 if ended and terminated[env] else self.powers[len(waiting)]
                first, first_action = starts.popleft()
                waiting.popleft()
                yield first, first_action, total, discount, final_obs[env]
