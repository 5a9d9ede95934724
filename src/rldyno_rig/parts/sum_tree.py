"""Sampling in proportion to priorities, in logarithmic time, many at once."""

from __future__ import annotations

import numpy as np


class SumTree:
    """A binary tree in one array: node i has children 2i and 2i+1, the leaves are the priorities."""

    def __init__(self, capacity: int) -> None:
        self.leaves = 1 << max(1, (capacity - 1).bit_length())
        self.nodes = np.zeros(2 * self.leaves)

    @property
    def total(self) -> float:
        return float(self.nodes[1])

    def get(self, index: np.ndarray) -> np.ndarray:
        return self.nodes.take(index + self.leaves)

    def set(self, index: np.ndarray, priority: np.ndarray) -> None:
        """Write leaves, then recompute every node above them; of equal indices the last one counts."""
        nodes = self.nodes
        at = index + self.leaves
        nodes[at] = priority
        while at[0] > 1:
            at = at >> 1
            nodes[at] = nodes[2 * at] + nodes[2 * at + 1]

    def find(self, mass: np.ndarray) -> np.ndarray:
        """The leaf in which the running sum of the priorities passes each mass, 0 ≤ mass < total."""
        nodes, mass = self.nodes, mass.copy()
        at = np.ones(len(mass), np.int64)
        while at[0] < self.leaves:
            at *= 2
            left = nodes[at]
            # Rounding may carry the mass past the end; an empty right child is never entered.
            right = (mass >= left) & (nodes[at + 1] > 0)
            mass -= left * right
            at += right
        return at - self.leaves
