"""Return and length of the episodes under way."""

from __future__ import annotations

from typing import Any, Callable, Iterable, Optional

import numpy as np

from rldyno_rig.envs.environment import Environment
from rldyno_rig.envs.stacked import Score, StackedEnvironment
from rldyno_rig.recorder import Recorder

Count = Callable[[np.ndarray], None]
"""Takes the rewards of one step."""


class Episodes:
    """`count(reward)` books one step of every environment, `ended` reports the episodes that end with it.

    `returned`: the sums, where somebody else adds the rewards; `flush` brings them up to date. `score`: the
    environment adds them, and knows which episodes are over.
    """

    def __init__(
        self,
        environments: int,
        recorder: Recorder,
        returned: Optional[np.ndarray] = None,
        flush: Callable[[], None] = lambda: None,
        score: Optional[Score] = None,
    ) -> None:
        self._recorder = recorder
        self._environments = environments
        self._only = (0,) if environments == 1 else ()
        self._score = score
        self._began = [0] * environments
        # One environment is counted in a Python float, which is faster than an array of one.
        own = [0.0] if environments == 1 else np.zeros(environments)
        self._returns: Any = own if returned is None else returned
        self._flush = flush
        recorder.returns = self.under_way
        self.count = self._counter()
        if score is not None:
            self._returns = score.returned
            self.count = lambda reward: None

    @staticmethod
    def of(env: Environment, recorder: Recorder) -> Episodes:
        return Episodes(env.count, recorder, score=env.score if isinstance(env, StackedEnvironment) else None)

    def ended(self, step: int, now: int, terminated: np.ndarray, truncated: np.ndarray) -> None:
        """`step` counts the steps of all environments, this one included; `_began` holds it per episode."""
        returns = self.under_way()
        for env in self._over(terminated, truncated):
            length = (step - self._began[env]) // self._environments
            self._recorder.episode(env, step, now, float(returns[env]), length, bool(terminated[env]))
            returns[env] = 0.0
            self._began[env] = step

    def _over(self, terminated: np.ndarray, truncated: np.ndarray) -> Iterable[int]:
        if self._score is not None:
            over: Iterable[int] = np.flatnonzero(self._score.over).tolist()
            return over
        return self._only or np.flatnonzero(terminated | truncated).tolist()

    def under_way(self) -> Any:
        """Returns of the episodes so far."""
        self._flush()
        return self._returns

    def _counter(self) -> Count:
        """A closure, not a method: it runs with every step."""
        returns, add = self._returns, np.add

        def count_one(reward: np.ndarray) -> None:
            returns[0] += reward.item()

        def count_all(reward: np.ndarray) -> None:
            add(returns, reward, returns)

        return count_one if self._environments == 1 else count_all
