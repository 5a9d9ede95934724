"""Minibatches where a framework has no input pipeline: the loop that its users write with NumPy."""

from __future__ import annotations

from typing import Iterator, List

import numpy as np


def batches(arrays: List[np.ndarray], rows: int, epochs: int) -> Iterator[List[np.ndarray]]:
    rng = np.random.default_rng()
    for _ in range(epochs):
        order = rng.permutation(len(arrays[0]))
        for first in range(0, len(order), rows):
            yield [array[order[first : first + rows]] for array in arrays]
