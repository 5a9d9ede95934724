"""Host memory that TensorFlow's tensors lie in, or are copied from."""

from __future__ import annotations

import itertools
from typing import Any, Dict, Iterator, List, Sequence, Tuple

import numpy as np
import tensorflow as tf

_ALIGNMENT = 64


class Stage:
    """Memory that NumPy writes and TensorFlow reads: a copy takes 0.3 µs, `tf.constant` 14.

    For arrays of the same shapes and types there are two places in turn: a batch stays what it is until the
    second `put` after it.
    """

    def __init__(self) -> None:
        self.places: Dict[Tuple[Any, ...], Iterator[Tuple[List[np.ndarray], List[Any]]]] = {}

    def put(self, *arrays: np.ndarray) -> Sequence[Any]:
        key = tuple([(array.shape, array.dtype.char) for array in arrays])
        places = self.places.get(key)
        if places is None:
            places = self.places[key] = itertools.cycle([shared(arrays), shared(arrays)])
        hosts, tensors = next(places)
        for host, array in zip(hosts, arrays):
            host[...] = array
        return tensors


def shared(like: Sequence[Any]) -> Tuple[List[np.ndarray], List[Any]]:
    """The same memory as NumPy arrays to write to and as tensors."""
    hosts = [_aligned(array.shape, array.dtype) for array in like]
    return hosts, [tf.experimental.dlpack.from_dlpack(host.__dlpack__()) for host in hosts]


def _aligned(shape: Tuple[int, ...], dtype: Any) -> np.ndarray:
    """TensorFlow ends the process when memory that it is given does not begin at a multiple of 64 bytes."""
    size = int(np.prod(shape, dtype=int)) * np.dtype(dtype).itemsize
    block = np.zeros(size + _ALIGNMENT, np.uint8)
    start = -block.ctypes.data % _ALIGNMENT
    return block[start : start + size].view(dtype).reshape(shape)


def constants(*arrays: np.ndarray) -> Sequence[Any]:
    return [tf.constant(array) for array in arrays]
