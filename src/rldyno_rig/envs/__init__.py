"""Environments: fast built-in CartPole and MountainCar, Atari games, and whatever Gymnasium knows."""

from __future__ import annotations

from functools import partial
from typing import Callable, Dict, Optional

from rldyno_rig.envs.atari_rules import AtariRules, is_preprocessed
from rldyno_rig.envs.classic import CARTPOLE, MOUNTAIN_CAR, Task
from rldyno_rig.envs.environment import Environment, check_arguments
from rldyno_rig.envs.one import OneEnvironment
from rldyno_rig.envs.scalar import ScalarEnvironment
from rldyno_rig.envs.vector import VectorEnvironment

Maker = Callable[[int, int, Optional[int]], Environment]

# From this many environments on, arrays are faster than Python floats (measured on both tasks).
VECTOR_FROM = 32


def make(
    environment_id: str,
    count: int,
    seed: int,
    max_episode_steps: Optional[int] = None,
    atari: Optional[AtariRules] = None,
    threads: int = 1,
) -> Environment:
    """`count` environments; the i-th is seeded with seed + i. None keeps the environment's own time limit.

    Ids that are not built in, and `module:Id`, go to Gymnasium, which is imported only then. `atari` and
    `threads` are for `ALE/…-v5`, which ale-py's emulator plays; without rules by the usual ones.
    """
    check_arguments(count, seed, max_episode_steps)
    maker = BUILT_IN.get(environment_id)
    if is_preprocessed(environment_id):
        from rldyno_rig.envs.atari import AtariEnvironment

        return AtariEnvironment(
            environment_id, count, seed, max_episode_steps, atari or AtariRules(), threads
        )
    if maker is None:
        from rldyno_rig.envs.gymnasium_ import GymnasiumEnvironment

        maker = partial(GymnasiumEnvironment, environment_id)
    return maker(count, seed, max_episode_steps)


def _classic(
    task: Task, time_limit: int, count: int, seed: int, max_episode_steps: Optional[int]
) -> Environment:
    limit = time_limit if max_episode_steps is None else max_episode_steps
    if count == 1:
        return OneEnvironment(task, seed, limit)
    form = ScalarEnvironment if count < VECTOR_FROM else VectorEnvironment
    return form(task, count, seed, limit)


BUILT_IN: Dict[str, Maker] = {
    "CartPole-v0": partial(_classic, CARTPOLE, 200),
    "CartPole-v1": partial(_classic, CARTPOLE, 500),
    "MountainCar-v0": partial(_classic, MOUNTAIN_CAR, 200),
}
