"""The contract between the training loops and every environment."""

from __future__ import annotations

from typing import Optional, Tuple

import numpy as np

from rldyno_rig.envs.journal import Journal

Step = Tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]


class Environment:
    """`count` copies of one task, stepped side by side; the step that ends an episode also starts the next.

    Arrays that `reset` and `step` return belong to the environment. Those it returns as `obs` are overwritten
    by the second step after, so that a loop can still read where a step came from; all others by the next
    step. Copy what must last longer. Rewards in an array that cannot be written to never change.
    """

    observation_shape: Tuple[int, ...]
    observation_dtype: str
    """float32 for vectors, uint8 for channel-first images."""
    actions: int
    """Actions are the integers 0 … actions − 1."""
    count: int
    max_episode_steps: Optional[int]
    """Step at which an episode is truncated; None where nothing limits it."""

    def reset(self) -> np.ndarray:
        """First observations `[count, *observation_shape]`.

        Environment i is seeded with seed + i as Gymnasium's `reset(seed=seed + i)` would; its later episodes
        draw from the same generator. Calling this again starts over from those seeds.
        """
        raise NotImplementedError

    def step(self, actions: np.ndarray) -> Step:
        """(obs, reward, terminated, truncated, final_obs), each over `count`.

        Where an episode ended, `obs` is the first observation of the next one and `final_obs` the last of the
        ended one. Elsewhere they agree; if no episode ended they are the same array. An episode that
        terminates on its last allowed step is both terminated and truncated.
        """
        raise NotImplementedError

    def keep(self, journal: Journal) -> bool:
        """For count == 1: write every step from now on into this journal; what is seen now is its first row.

        It must not be reset after that. False: somebody else must write them.
        """
        return False


def check_arguments(count: int, seed: int, max_episode_steps: Optional[int]) -> None:
    if count < 1:
        raise ValueError("at least one environment is needed, not {}".format(count))
    if seed < 0:
        raise ValueError("an environment's seed cannot be negative: {}".format(seed))
    if max_episode_steps is not None and max_episode_steps < 1:
        raise ValueError("max_episode_steps must be at least 1, not {}".format(max_episode_steps))


def generator(seed: int) -> np.random.Generator:
    """The generator of a Gymnasium environment after `reset(seed=seed)`."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed)))
