"""Prioritised experience replay (Schaul et al. 2016): what to sample, and the weight that corrects for it."""

from __future__ import annotations

from typing import Tuple

import numpy as np

from rldyno_rig.parts.native import library
from rldyno_rig.parts.native_tree import NativeSumTree
from rldyno_rig.parts.sum_tree import SumTree


class Priorities:
    """P(i) ∝ pᵢ^α;  weight = (size · P(i))^−β / the largest weight of the batch."""

    def __init__(self, capacity: int, exponent: float, eps: float, rng: np.random.Generator) -> None:
        self.capacity = capacity
        native = library()
        self.tree = SumTree(capacity) if native is None else NativeSumTree(native, capacity)
        self.exponent, self.eps, self.rng = exponent, eps, rng
        self.highest = 1.0
        self.known = 0

    @property
    def nbytes(self) -> int:
        return self.tree.nodes.nbytes

    def newest(self, stored: int) -> None:
        """What was stored since the last call gets the highest priority seen, to be sampled at least once.

        `stored` counts transitions since the start; the i-th is at position i modulo the capacity.
        """
        new = np.arange(self.known, stored) % self.capacity
        if len(new):
            self.tree.set(new, np.full(len(new), self.highest**self.exponent))
        self.known = stored

    def sample(self, count: int, beta: float) -> Tuple[np.ndarray, np.ndarray]:
        """One position from each of `count` equal slices of the total mass, and their weights."""
        total, size = self.tree.total, min(self.known, self.capacity)
        index = self.tree.find((np.arange(count) + self.rng.random(count)) * (total / count))
        weight = (size / total * self.tree.get(index)) ** -beta
        return index, weight / weight.max()

    def update(self, index: np.ndarray, loss: np.ndarray) -> None:
        priority = loss.astype(np.float64) + self.eps
        self.highest = max(self.highest, float(priority.max()))
        self.tree.set(index, priority**self.exponent)
