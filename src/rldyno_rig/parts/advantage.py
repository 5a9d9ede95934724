"""Generalised advantage estimation (Schulman et al. 2016) over a rollout of several environments."""

from __future__ import annotations

from typing import Callable

import numpy as np

from rldyno_rig.parts.native import library


def gae(
    reward: np.ndarray,
    value: np.ndarray,
    bootstrap: np.ndarray,
    ended: np.ndarray,
    last_value: np.ndarray,
    gamma: float,
    gae_lambda: float,
) -> np.ndarray:
    """A_t = δ_t + γλ·A_{t+1} within an episode;  δ_t = r_t + γ·V(s_{t+1}) − V(s_t).

    All arrays are [time, environment] but `last_value` [environment], the value after the last step. Where
    `ended`, V(s_{t+1}) is `bootstrap`: 0 after a termination, the value of the final observation after a
    time limit; and the sum stops there.
    """
    following = np.concatenate([value[1:], last_value[None]])
    delta = reward + gamma * np.where(ended, bootstrap, following) - value
    decay = (gamma * gae_lambda) * (1 - ended.astype(value.dtype))
    advantage = np.empty_like(value)
    running = np.zeros_like(last_value)
    for t in range(len(reward) - 1, -1, -1):
        running = delta[t] + decay[t] * running
        advantage[t] = running
    return advantage


def estimator(
    reward: np.ndarray, value: np.ndarray, bootstrap: np.ndarray, ended: np.ndarray
) -> Callable[[np.ndarray, float, float], np.ndarray]:
    """`gae` of these arrays, which the caller fills again and again, for (last_value, gamma, gae_lambda).

    In C where there is the library. Addresses are asked for once: each takes 2 µs, a rollout 1.
    """
    native = library()
    if native is None:
        return lambda last_value, gamma, decay: gae(reward, value, bootstrap, ended, last_value, gamma, decay)
    last, advantage = np.zeros_like(value[0]), np.zeros_like(value)
    held = (reward, value, bootstrap, last, ended, advantage)
    assert all(array.flags.c_contiguous for array in held)
    assert {array.dtype for array in held if array is not ended} == {value.dtype}
    addresses, estimate = [array.ctypes.data for array in held], getattr(native, PRECISIONS[value.dtype])

    def estimated(last_value: np.ndarray, gamma: float, gae_lambda: float) -> np.ndarray:
        last[:] = last_value
        estimate(*addresses, *held[1].shape, gamma, gamma * gae_lambda)
        return advantage.copy()

    return estimated


PRECISIONS = {np.dtype("float32"): "rldyno_gae_float", np.dtype("float64"): "rldyno_gae_double"}


def normalise(advantage: np.ndarray) -> np.ndarray:
    """Zero mean, unit population standard deviation (ddof = 0), along the last axis."""
    size = advantage.dtype.type(advantage.shape[-1])
    centred = advantage - np.add.reduce(advantage, -1, keepdims=True) / size
    deviation = np.sqrt(np.add.reduce(centred * centred, -1, keepdims=True) / size)
    normalised: np.ndarray = centred / (deviation + advantage.dtype.type(1e-8))
    return normalised
