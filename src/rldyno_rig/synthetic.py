"""Arrays that look like what a learner is given: synthetic batches, and what `act` consumes.

Floats have the learner's dtype, observations the environment's, actions the backend's INDEX_DTYPE. The
leading axis is the batch, except for the noise of noisy networks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import List, Tuple

import numpy as np

from rldyno_rig.parts.streams import factorised, gumbel
from rldyno_rig.spec import Network, Spec, noise_size


@dataclass(frozen=True)
class Draw:
    """Draws the arrays of one synthetic batch; each algorithm makes its batch of them."""

    spec: Spec
    rng: np.random.Generator
    dtype: str
    index_dtype: str
    rows: int

    def observations(self) -> np.ndarray:
        return observations(self.spec.network, self.rng, self.rows)

    def actions(self) -> np.ndarray:
        return self.rng.integers(0, self.spec.network.actions, self.rows).astype(self.index_dtype)

    def normals(self) -> List[np.ndarray]:
        """Four standard normal numbers per row: rewards, advantages, values, as the algorithm needs them."""
        return [self.rng.standard_normal(self.rows).astype(self.dtype) for _ in range(4)]

    def transitions(self) -> Tuple[np.ndarray, ...]:
        """obs, action, reward, discount, next_obs; a tenth of them end their episode."""
        obs, action = self.observations(), self.actions()
        reward = self.normals()[0]
        discount = (self.spec.hyper.gamma * (self.rng.random(self.rows) > 0.1)).astype(self.dtype)
        return obs, action, reward, discount, self.observations()

    def uniform(self, low: float, high: float) -> np.ndarray:
        return self.rng.uniform(low, high, self.rows).astype(self.dtype)

    def noise(self, count: int) -> np.ndarray:
        """[count, k]: factorised noise of the whole network."""
        return factorised(self.rng, (count, noise_size(self.spec.network)), np.dtype(self.dtype))


def acting(spec: Spec, rng: np.random.Generator, dtype: str, rows: int) -> Tuple[np.ndarray, ...]:
    """What `act` consumes: observations and, where the network has it, noise."""
    obs = observations(spec.network, rng, rows)
    if spec.network.noisy:
        return obs, factorised(rng, (noise_size(spec.network),), np.dtype(dtype))
    if spec.network.samples:
        return obs, gumbel(rng, (rows, spec.network.actions), np.dtype(dtype))
    return (obs,)


def observations(network: Network, rng: np.random.Generator, rows: int) -> np.ndarray:
    shape = (rows, *network.observation_shape)
    if network.observation_dtype == "uint8":
        return rng.integers(0, 256, shape).astype(np.uint8)
    return rng.standard_normal(shape).astype(network.observation_dtype)
