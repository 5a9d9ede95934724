"""Transitions over n steps of one episode."""

from __future__ import annotations

from typing import Iterator, List, Tuple

import numpy as np

Transition = Tuple[np.ndarray, int, float, float, np.ndarray]


class NStep:
    """Σ_{k<n} γᵏ r_k, and the discount γⁿ · (1 − terminated) of the rest; shorter where an episode ends."""

    def __init__(self, n: int, gamma: float, environments: int) -> None:
        self.n, self.gamma = n, gamma
        # Per environment, oldest first: [observation, action, reward so far, discount so far, steps].
        self.open: List[List[list]] = [[] for _ in range(environments)]

    def push(
        self,
        obs: np.ndarray,
        action: np.ndarray,
        reward: np.ndarray,
        terminated: np.ndarray,
        truncated: np.ndarray,
        final_obs: np.ndarray,
    ) -> Iterator[Transition]:
        """Take one step of every environment, give the transitions that it completes."""
        for env, waiting in enumerate(self.open):
            waiting.append([obs[env].copy(), int(action[env]), 0.0, 1.0, 0])
            r = float(reward[env])
            for entry in waiting:
                entry[2] += entry[3] * r
                entry[3] *= self.gamma
                entry[4] += 1
            if terminated[env] or truncated[env]:
                done, waiting[:] = waiting[:], []
            elif waiting[0][4] == self.n:
                done = [waiting.pop(0)]
            else:
                continue
            for first, first_action, total, discount, _ in done:
                yield first, first_action, total, 0.0 if terminated[env] else discount, final_obs[env]
