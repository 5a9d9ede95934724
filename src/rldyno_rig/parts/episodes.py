"""Return and length of the episodes under way."""

from __future__ import annotations

import numpy as np

from rldyno_rig.recorder import Recorder


class Episodes:
    def __init__(self, count: int, recorder: Recorder) -> None:
        # One environment is counted in a Python float, which is faster than an array of one.
        self._returns = np.zeros(count) if count > 1 else [0.0]
        self._began = [0] * count
        self._steps = 0
        self._recorder = recorder

    def count(self, reward: np.ndarray) -> None:
        """Book one step of every environment."""
        self._steps += 1
        if len(self._began) == 1:
            self._returns[0] += reward.item()
        else:
            self._returns += reward

    def ended(self, step: int, now: int, terminated: np.ndarray, truncated: np.ndarray) -> None:
        """Report the episodes that this step ended; `_began` holds the step count at which each one began."""
        for env in np.flatnonzero(terminated | truncated).tolist():
            length = self._steps - self._began[env]
            self._recorder.episode(env, step, now, float(self._returns[env]), length, bool(terminated[env]))
            self._returns[env] = 0.0
            self._began[env] = self._steps
