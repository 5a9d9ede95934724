"""Prioritised experience replay (Schaul et al. 2016): what to sample, and the weight that corrects for it."""

from __future__ import annotations

from typing import Tuple

import numpy as np

from rldyno_rig.parts.sum_tree import SumTree


class Priorities:
    """P(i) ∝ pᵢ^α;  weight = (size · P(i))^−β / the largest weight of the batch."""

    def __init__(self, capacity: int, exponent: float, eps: float, rng: np.random.Generator) -> None:
        self.capacity = capacity
        self.tree = SumTree(capacity)
        self.exponent, self.eps, self.rng = exponent, eps, rng
        self.highest = 1.0

    @property
    def nbytes(self) -> int:
        return self.tree.nodes.nbytes

    def newest(self, first: int, end: int) -> None:
        """New transitions get the highest priority seen, so that they are sampled at least once.

        They are numbered from the start of the training; their number modulo the capacity is their position.
        """
        if end > first:
            index = np.arange(first, end) % self.capacity
            self.tree.set(index, np.full(len(index), self.highest**self.exponent))

    def sample(self, count: int, size: int, beta: float) -> Tuple[np.ndarray, np.ndarray]:
        """One position from each of `count` equal slices of the total mass, and their weights."""
        total = self.tree.total
        index = self.tree.find((np.arange(count) + self.rng.random(count)) * (total / count))
        weight = (size / total * self.tree.get(index)) ** -beta
        return index, weight / weight.max()

    def update(self, index: np.ndarray, loss: np.ndarray) -> None:
        priority = loss.astype(np.float64) + self.eps
        self.highest = max(self.highest, float(priority.max()))
        self.tree.set(index, priority**self.exponent)
