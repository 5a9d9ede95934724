"""How much memory the replay memories of a plan take, as far as that is known before anything runs."""

from __future__ import annotations

import math

import numpy as np

from rldyno.study.plan import Cell
from rldyno_rig import envs
from rldyno_rig.envs.atari_rules import OBSERVATION_SHAPE, STACK, is_preprocessed
from rldyno_rig.hyper import Replayed
from rldyno_rig.job_files import EnvironmentFacts
from rldyno_rig.parts.frames import PLACE_BYTES, frame_bytes

_ACTION_BYTES = 8


def replay_bytes(cell: Cell, found: EnvironmentFacts | None = None) -> int | None:
    """Of one worker when it is full. 0 without a replay memory; None where nothing is known of observations
    before a toolchain makes the environment. `found` is what it then finds.
    """
    values = cell.hyper
    if not isinstance(values, Replayed):
        return 0
    numbers = _ACTION_BYTES + 2 * (8 if cell.dtype == "float64" else 4)
    if is_preprocessed(cell.environment):
        frames = frame_bytes(values.capacity, values.environments, OBSERVATION_SHAPE, values.n_step)
        return frames + values.capacity * (2 * STACK * PLACE_BYTES + numbers)
    if cell.environment in envs.BUILT_IN:
        shape = envs.make(cell.environment, count=1, seed=0).observation_shape
        return values.capacity * (2 * 4 * math.prod(shape) + numbers)
    if found is not None and found.error is None:
        observation = math.prod(found.observation_shape) * np.dtype(found.observation_dtype).itemsize
        return values.capacity * (2 * observation + numbers)
    return None
