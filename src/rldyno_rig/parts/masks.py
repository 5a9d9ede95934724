"""Bootstrap masks of an ensemble (Osband et al. 2016): members learn from a share of the memory each."""

from __future__ import annotations

from typing import Callable, Tuple

import numpy as np

from rldyno_rig.parts.replay import Memory, Transitions, uniform_draws


class Masks:
    """Which positions of a replay memory each member may learn from.

    A bit per position and member is drawn once: a transition gets the bits of its position when it is
    stored, and the one that overwrites it gets the same. No two transitions of a position are ever in the
    memory together, so those that are there have independent bits. Members then have their positions as a
    sorted list, and a batch takes one draw per row, whatever the share.
    The first position is everybody's: no member is ever without a transition.
    """

    def __init__(self, members: int, share: float, capacity: int, rng: np.random.Generator) -> None:
        self.positions = tuple(_positions(share, capacity, rng) for _ in range(members))

    @property
    def nbytes(self) -> int:
        return sum(own.nbytes for own in self.positions)

    def sampler(
        self, memory: Memory, rng: np.random.Generator, batch_size: int
    ) -> Callable[[], Tuple[Transitions, ...]]:
        """Gives each member a batch of its own, uniformly from what is stored and not masked out."""
        each = [(own, uniform_draws(rng, batch_size)) for own in self.positions]

        def sample() -> Tuple[Transitions, ...]:
            stored = memory.stored()
            batches = []
            for own, draws in each:
                # How many of its positions are filled: all of them once the memory has gone round.
                filled = own.searchsorted(stored)
                batches.append(memory.take(own.take((next(draws) * filled).astype(np.int64))))
            return tuple(batches)

        return sample


def _positions(share: float, capacity: int, rng: np.random.Generator) -> np.ndarray:
    bits = rng.random(capacity) < share
    bits[0] = True
    return np.flatnonzero(bits).astype(np.int64)
