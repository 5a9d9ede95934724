"""ε-greedy decisions, drawn and scheduled in blocks."""

from __future__ import annotations

from typing import Iterator, Tuple

import numpy as np

BLOCK = 1024


def epsilon_greedy(
    rng: np.random.Generator,
    environments: int,
    actions: int,
    start: float,
    end: float,
    over: int,
    index_dtype: np.dtype,
) -> Iterator[Tuple[bool, bool, np.ndarray, np.ndarray]]:
    """For each step of all environments: (any greedy, all greedy, greedy mask, random actions).

    Where the mask is unset the random action is taken; when none is greedy the network does not run.
    """
    first = 0
    while True:
        steps = np.arange(first, first + BLOCK) * environments
        epsilon = start + (end - start) * np.minimum(1.0, steps / max(1, over))
        greedy = rng.random((BLOCK, environments)) >= epsilon[:, None]
        random = rng.integers(0, actions, (BLOCK, environments)).astype(index_dtype)
        some, every = np.any(greedy, 1).tolist(), np.all(greedy, 1).tolist()
        yield from zip(some, every, greedy, random)
        first += BLOCK
