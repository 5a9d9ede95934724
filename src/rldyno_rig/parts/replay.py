"""A ring of transitions in preallocated arrays."""

from __future__ import annotations

from typing import Tuple

import numpy as np


class Replay:
    """Capacity is rounded down to whole steps of all environments, so that a step never wraps around."""

    def __init__(
        self,
        capacity: int,
        environments: int,
        shape: Tuple[int, ...],
        obs_dtype: str,
        dtype: str,
        index_dtype: str,
    ) -> None:
        capacity = max(1, capacity // environments) * environments
        self.capacity = capacity
        self.environments = environments
        self.size = 0
        self.next = 0
        self.obs = np.zeros((capacity, *shape), obs_dtype)
        self.next_obs = np.zeros((capacity, *shape), obs_dtype)
        self.action = np.zeros(capacity, index_dtype)
        self.reward = np.zeros(capacity, dtype)
        self.discount = np.zeros(capacity, dtype)

    def add(
        self,
        obs: np.ndarray,
        action: np.ndarray,
        reward: np.ndarray,
        discount: np.ndarray,
        next_obs: np.ndarray,
    ) -> int:
        """Store one transition per environment; returns the position of the first."""
        start = self.next
        stop = start + self.environments
        self.obs[start:stop] = obs
        self.next_obs[start:stop] = next_obs
        self.action[start:stop] = action
        self.reward[start:stop] = reward
        self.discount[start:stop] = discount
        self.next = 0 if stop == self.capacity else stop
        if self.size < self.capacity:
            self.size = stop
        return start

    def take(self, index: np.ndarray) -> Tuple[np.ndarray, ...]:
        """obs, action, reward, discount, next_obs at these positions."""
        return (
            self.obs.take(index, 0),
            self.action.take(index),
            self.reward.take(index),
            self.discount.take(index),
            self.next_obs.take(index, 0),
        )
