"""Independent random streams of one trial, so that drawing more of one never shifts another."""

from __future__ import annotations

from typing import NamedTuple, Tuple

import numpy as np


class Streams(NamedTuple):
    weights: np.random.Generator
    explore: np.random.Generator
    """ε-greedy draws, Gumbel noise, noisy-network noise while acting."""
    sample: np.random.Generator
    """Replay indices, minibatch shuffles."""
    noise: np.random.Generator
    """Noisy-network noise while updating."""
    masks: np.random.Generator
    """Which transitions each member of an ensemble may learn from."""


STREAMS = len(Streams._fields)
"""A stream more does not change those before it: each child of a seed has a number of its own."""


def streams(seed: int, rank: int = 0) -> Streams:
    """Of one worker of a trial. All of them draw the same weights."""
    first = Streams(*(np.random.default_rng(child) for child in np.random.SeedSequence(seed).spawn(STREAMS)))
    if rank == 0:
        return first
    others = np.random.SeedSequence((seed, rank)).spawn(STREAMS)
    return Streams(first.weights, *(np.random.default_rng(child) for child in others[1:]))


def gumbel(rng: np.random.Generator, shape: Tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """−log(−log u): added to logits, its argmax samples their softmax."""
    u = rng.random(shape)
    # random() may return 0, whose double logarithm is −inf.
    np.maximum(u, np.finfo(np.float64).tiny, out=u)
    return (-np.log(-np.log(u))).astype(dtype)


def factorised(rng: np.random.Generator, shape: Tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """f(x) = sign(x)·√|x| of standard normal x, as factorised noisy layers take it."""
    x = rng.standard_normal(shape)
    return (np.sign(x) * np.sqrt(np.abs(x))).astype(dtype)
