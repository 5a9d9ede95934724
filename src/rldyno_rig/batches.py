"""What one update consumes, per algorithm, as host arrays.

Floats have the learner's dtype, observations the environment's, actions the backend's INDEX_DTYPE.
The leading axis is the batch, except for Rainbow's noise.
"""

from __future__ import annotations

from typing import Dict, NamedTuple, Type

import numpy as np

from rldyno_rig.parts.streams import factorised, gumbel
from rldyno_rig.spec import Network, Spec, noise_size


class DqnBatch(NamedTuple):
    obs: np.ndarray
    action: np.ndarray
    reward: np.ndarray
    discount: np.ndarray
    """γ · (1 − terminated): a time limit does not end the return."""
    next_obs: np.ndarray


class RainbowBatch(NamedTuple):
    obs: np.ndarray
    action: np.ndarray
    reward: np.ndarray
    """Discounted sum of the next n rewards."""
    discount: np.ndarray
    """γⁿ · (1 − terminated)."""
    next_obs: np.ndarray
    weight: np.ndarray
    """Importance weights of prioritised sampling."""
    noise: np.ndarray
    """[3, k]: noise of the online network on obs, of the online one on next_obs, of the target network."""


class A2cBatch(NamedTuple):
    obs: np.ndarray
    action: np.ndarray
    advantage: np.ndarray
    ret: np.ndarray
    """Target of the value: advantage before normalisation + value."""


class PpoBatch(NamedTuple):
    obs: np.ndarray
    action: np.ndarray
    log_prob: np.ndarray
    """Of the action under the policy that took it."""
    advantage: np.ndarray
    ret: np.ndarray
    value: np.ndarray
    """Of the observation, under the critic that collected it."""


class ClassifierBatch(NamedTuple):
    obs: np.ndarray
    action: np.ndarray
    """The label."""


BATCHES: Dict[str, Type[tuple]] = {
    "dqn": DqnBatch,
    "rainbow": RainbowBatch,
    "a2c": A2cBatch,
    "ppo": PpoBatch,
    "classifier": ClassifierBatch,
}


def size(spec: Spec) -> int:
    """Rows of one update."""
    hyper = spec.hyper
    if spec.algorithm == "ppo":
        return hyper.environments * hyper.rollout_steps // hyper.minibatches
    if spec.algorithm == "a2c":
        return hyper.environments * hyper.rollout_steps
    return hyper.batch_size


def synthetic(spec: Spec, rng: np.random.Generator, dtype: str, index_dtype: str, rows: int) -> tuple:
    """A batch of plausible numbers: for warming up, for proofs, and for timing updates alone."""
    network = spec.network
    obs = observations(network, rng, rows)
    action = rng.integers(0, network.actions, rows).astype(index_dtype)
    if spec.algorithm == "classifier":
        return ClassifierBatch(obs, action)
    floats = [rng.standard_normal(rows).astype(dtype) for _ in range(4)]
    if spec.algorithm in ("dqn", "rainbow"):
        discount = (spec.hyper.gamma * (rng.random(rows) > 0.1)).astype(dtype)
        batch = (obs, action, floats[0], discount, observations(network, rng, rows))
        if spec.algorithm == "dqn":
            return DqnBatch(*batch)
        noise = factorised(rng, (3, noise_size(network)), np.dtype(dtype))
        return RainbowBatch(*batch, weight=rng.uniform(0.2, 1.0, rows).astype(dtype), noise=noise)
    if spec.algorithm == "a2c":
        return A2cBatch(obs, action, floats[0], floats[1])
    # Old log-probabilities around uniform, so that some ratios are clipped and others are not.
    log_prob = (-np.log(network.actions) + 0.3 * floats[2]).astype(dtype)
    return PpoBatch(obs, action, log_prob, floats[0], floats[1], floats[3])


def acting(spec: Spec, rng: np.random.Generator, dtype: str, rows: int) -> tuple:
    """What `act` consumes: observations and, where the algorithm has it, noise."""
    obs = observations(spec.network, rng, rows)
    if spec.network.noisy:
        return obs, factorised(rng, (noise_size(spec.network),), np.dtype(dtype))
    if spec.network.head == "actor_critic":
        return obs, gumbel(rng, (rows, spec.network.actions), np.dtype(dtype))
    return (obs,)


def observations(network: Network, rng: np.random.Generator, rows: int) -> np.ndarray:
    shape = (rows, *network.observation_shape)
    if network.observation_dtype == "uint8":
        return rng.integers(0, 256, shape).astype(np.uint8)
    return rng.standard_normal(shape).astype(network.observation_dtype)
