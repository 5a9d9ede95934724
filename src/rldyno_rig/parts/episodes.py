"""Return and length of the episodes under way."""

from __future__ import annotations

from typing import Any, Callable

import numpy as np

from rldyno_rig.recorder import Recorder


class Episodes:
    """`count(reward)` books one step of every environment, `ended` reports the episodes that end with it."""

    def __init__(self, environments: int, recorder: Recorder) -> None:
        self._recorder = recorder
        self._environments = environments
        self._began = [0] * environments
        # One environment is counted in a Python float, which is faster than an array of one.
        self._returns: Any = [0.0] if environments == 1 else np.zeros(environments)
        recorder.returns = self._returns
        self.count = self._counter()

    def ended(self, step: int, now: int, terminated: np.ndarray, truncated: np.ndarray) -> None:
        """`step` counts the steps of all environments, this one included; `_began` holds it per episode."""
        for env in np.flatnonzero(terminated | truncated).tolist():
            length = (step - self._began[env]) // self._environments
            self._recorder.episode(env, step, now, float(self._returns[env]), length, bool(terminated[env]))
            self._returns[env] = 0.0
            self._began[env] = step

    def _counter(self) -> Callable[[np.ndarray], None]:
        """A closure, not a method: it runs with every step."""
        returns, add = self._returns, np.add

        def count_one(reward: np.ndarray) -> None:
            returns[0] += reward.item()

        def count_all(reward: np.ndarray) -> None:
            add(returns, reward, returns)

        return count_one if self._environments == 1 else count_all
