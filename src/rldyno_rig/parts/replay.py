"""A ring of transitions in preallocated arrays."""

from __future__ import annotations

from typing import Iterator, Tuple

import numpy as np

DRAWN_AT_ONCE = 256


class Replay:
    """Capacity is rounded down to whole steps of all environments, so that a step never wraps around."""

    def __init__(
        self,
        capacity: int,
        environments: int,
        shape: Tuple[int, ...],
        obs_dtype: str,
        dtype: np.dtype,
        index_dtype: np.dtype,
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

    @property
    def nbytes(self) -> int:
        arrays = (self.obs, self.next_obs, self.action, self.reward, self.discount)
        return sum(array.nbytes for array in arrays)

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

    def add_one(
        self, obs: np.ndarray, action: int, reward: float, discount: float, next_obs: np.ndarray
    ) -> int:
        """Store the transition of a single environment; returns its position."""
        at = self.next
        self.obs[at] = obs
        self.next_obs[at] = next_obs
        self.action[at] = action
        self.reward[at] = reward
        self.discount[at] = discount
        self.next = 0 if at + 1 == self.capacity else at + 1
        if self.size < self.capacity:
            self.size = at + 1
        return at

    def sample(self, draws: np.ndarray) -> Tuple[np.ndarray, ...]:
        """Transitions at uniformly random positions, from one number in [0, 1) each."""
        return self.take((draws * self.size).astype(np.int64))

    def take(self, index: np.ndarray) -> Tuple[np.ndarray, ...]:
        """obs, action, reward, discount, next_obs at these positions."""
        return (
            self.obs.take(index, 0),
            self.action.take(index),
            self.reward.take(index),
            self.discount.take(index),
            self.next_obs.take(index, 0),
        )


def uniform_draws(rng: np.random.Generator, batch_size: int) -> Iterator[np.ndarray]:
    """A row of numbers in [0, 1) for each update, drawn in blocks: small draws cost as much as large ones."""
    while True:
        yield from rng.random((DRAWN_AT_ONCE, batch_size))
