"""How one agent learned: episodes and their steps, counted from its first step."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import asdict, dataclass
from typing import Any, Dict, Mapping, Optional, Tuple


@dataclass(frozen=True)
class Curve:
    """One entry for each point of time that was looked at."""

    step: Tuple[int, ...]
    """Environment steps taken."""
    episodes: Tuple[int, ...]
    """Episodes that have ended."""
    episode_steps: Tuple[int, ...]
    """Steps of those episodes."""

    def reached(self, steps_per_episode: float, window: int, longest: bool = True) -> Optional[int]:
        """The step at which the last `window` episodes had so many steps on average; None: never.

        `longest`: at least so many, else at most. Where points hold several episodes, the window is the
        shortest run of points with enough of them.
        """
        episodes, lengths = (0, *self.episodes), (0, *self.episode_steps)
        for at in range(1, len(episodes)):
            before = bisect_right(episodes, episodes[at] - window) - 1
            if before >= 0:
                mean = (lengths[at] - lengths[before]) / (episodes[at] - episodes[before])
                if (mean >= steps_per_episode) if longest else (mean <= steps_per_episode):
                    return self.step[at - 1]
        return None

    def means(self) -> Tuple[Tuple[int, float, int], ...]:
        """(step, mean steps of the episodes that ended since the point before, how many) where some did."""
        episodes, lengths = (0, *self.episodes), (0, *self.episode_steps)
        return tuple(
            (self.step[i], (lengths[i + 1] - lengths[i]) / ended, ended)
            for i in range(len(self.step))
            if (ended := episodes[i + 1] - episodes[i])
        )

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> Curve:
        return Curve(*(tuple(values[name]) for name in ("step", "episodes", "episode_steps")))

    def to_json(self) -> Dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Goal:
    """When an agent has learned, and when it is given up."""

    mean_return: float
    """Of the last `episodes` episodes, at which it has learned."""
    episodes: int
    steps: int
    """Environment steps after which an agent ends in any case."""

    def reached(self, curve: Curve, reward: float) -> Optional[int]:
        """The step at which the agent had learned; None: never. `reward` is that of every step."""
        return curve.reached(self.mean_return / reward, self.episodes, longest=reward > 0)
