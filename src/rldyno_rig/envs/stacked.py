"""Environments whose observations are stacks of frames, and that keep the score of the game themselves."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rldyno_rig.envs.environment import Environment


class Score(NamedTuple):
    """What episodes are judged by, where a learner gets other rewards and other ends than the game has."""

    returned: np.ndarray
    """Sum of the game's own rewards, of each episode under way; who reports an episode sets it to 0."""
    over: np.ndarray
    """Whether the last step ended the game. A step that only lost a life ends an episode for learning."""


class StackedEnvironment(Environment):
    """Observations are the last frames, uint8 `[count, frames, height, width]`, the newest last."""

    score: Score
