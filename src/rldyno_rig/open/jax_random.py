"""Random numbers of the open division in JAX: one draw of bits for a round, and shuffles without a sort."""

from __future__ import annotations

from typing import Tuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

ROUNDS = 4


def uniform(bits: Array, dtype: np.dtype) -> Array:
    """Bits → (0, 1), both ends excluded: 23 of them and a half."""
    return ((bits >> np.uint32(9)).astype(dtype) + dtype.type(0.5)) * dtype.type(2.0**-23)


def gumbel(bits: Array, dtype: np.dtype) -> Array:
    return -jnp.log(-jnp.log(uniform(bits, dtype)))


def draw_bits(key: Array, count: int) -> Tuple[Array, Array]:
    """(the next key, so many numbers of 32 bits)."""
    key, now = jax.random.split(key)
    return key, jax.random.bits(now, (count,), np.uint32)


def shuffled(bits: Array, size: int) -> Array:
    """An order of `size` rows from `shuffle_bits(size)` random numbers.

    Powers of two: odd multiples, sums and shifted exclusive ors of the row number are one-to-one, and need no
    sort, which takes many times as long. Others: the order of random keys.
    """
    if size & (size - 1):
        return jnp.argsort(bits).astype(np.int32)
    width = size.bit_length() - 1
    mask, half = np.uint32(size - 1), np.uint32((width + 1) // 2)
    x = jnp.arange(size, dtype=np.uint32)
    for i in range(ROUNDS):
        x = (x * (bits[2 * i] | np.uint32(1)) + bits[2 * i + 1]) & mask
        x = x ^ (x >> half)
    return x.astype(np.int32)


def shuffle_bits(size: int) -> int:
    return size if size & (size - 1) else 2 * ROUNDS
