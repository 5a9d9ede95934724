"""What the open loops of TensorFlow share: a scan, random numbers, choices, and the arrays of `tasks`."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Callable, List, Sequence, Tuple

import numpy as np
import tensorflow as tf
from tensorflow.compiler.tf2xla.python import xla

Tensor = Any
XP = SimpleNamespace(sin=tf.sin, cos=tf.cos, clip=tf.clip_by_value, where=tf.where, cumsum=tf.cumsum)
"""For `tasks` and `windows`."""


def scan(
    step: Callable[[Any, Sequence[Tensor]], Tuple[Any, Tensor]],
    carry: Any,
    given: Sequence[Tensor],
    kind: Tuple[Any, Sequence[int]],
) -> Tuple[Any, Tensor]:
    """`step` on each row of the given tensors in turn: (what it carries on, what it returns of each row).

    `kind`: dtype and shape of what it returns.
    """
    time = given[0].shape[0]

    def body(i: Tensor, carry: Any, kept: Any) -> Tuple[Any, ...]:
        carry, row = step(carry, [tensor[i] for tensor in given])
        return i + 1, carry, kept.write(i, row)

    kept = tf.TensorArray(kind[0], size=time, element_shape=kind[1])
    _, carry, kept = tf.while_loop(lambda i, *_: i < time, body, (tf.constant(0), carry, kept))
    return carry, kept.stack()


def repeat(step: Callable[[Any, Sequence[Tensor]], Any], carry: Any, given: Sequence[Tensor]) -> Any:
    """`scan` that keeps nothing."""
    time = given[0].shape[0]

    def body(i: Tensor, carry: Any) -> Tuple[Any, ...]:
        return i + 1, step(carry, [tensor[i] for tensor in given])

    return tf.while_loop(lambda i, *_: i < time, body, (tf.constant(0), carry))[1]


def draw_bits(seed: int, at: Tensor, count: int) -> Tensor:
    """So many numbers of 32 bits, the same for the same seed and round.

    XLA's own operator: on a CPU `tf.random.stateless_uniform` takes about 50 times as long. Seed and round
    are the key, and every round counts from 0: with the round as the counter its numbers would be those of
    the round before, moved by one.
    """
    key = tf.constant(seed << 32, tf.uint64) + tf.cast(at, tf.uint64)
    state = tf.stack([key, tf.constant(0, tf.uint64)])
    return xla.rng_bit_generator(tf.random.Algorithm.THREEFRY, state, [count], tf.uint32)[1]


def uniform(bits: Tensor, dtype: np.dtype) -> Tensor:
    """Bits → (0, 1), both ends excluded: 23 of them and a half."""
    shifted = tf.bitwise.right_shift(bits, tf.constant(9, tf.uint32))
    # There is no conversion of unsigned numbers that every device has.
    return (tf.cast(tf.cast(shifted, tf.int32), dtype) + 0.5) * 2.0**-23


def first_states(task: Any, bits: Tensor, dtype: np.dtype) -> Tensor:
    """Of `bits` [time, components, environments]."""
    low, high = (np.array(edge, dtype)[:, None] for edge in (task.low, task.high))
    return uniform(bits, dtype) * (high - low) + low


def observe(state: Tensor, dtype: np.dtype) -> Tensor:
    """Observations are float32 in every precision."""
    return tf.cast(tf.cast(state, tf.float32), dtype)


def chosen(scores: List[Tensor]) -> Tensor:
    """Number of the highest score; the first of equal ones."""
    best, action = scores[0], tf.zeros(scores[0].shape, tf.int32)
    for a, score in enumerate(scores[1:], 1):
        action = tf.where(score > best, a, action)
        best = tf.maximum(best, score)
    return action


def picked(tensor: Tensor, mask: Tensor, axis: int) -> Tensor:
    """Σ over the axis of what the mask keeps."""
    return tf.reduce_sum(tf.where(mask, tensor, tf.zeros_like(tensor)), axis)
