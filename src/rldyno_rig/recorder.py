"""What a worker writes while it trains, and the decision to stop."""

from __future__ import annotations

import math
import os
from collections import deque
from pathlib import Path
from typing import Any, Callable, Deque, Dict, Iterable, List, Optional

import numpy as np

from rldyno_rig.clock import COMMUNICATE, Clock
from rldyno_rig.schema import (
    ACTIONS_FILE,
    DONE_REASONS,
    EPISODE_COLUMNS,
    EPISODES_FILE,
    PROGRESS_COLUMNS,
    PROGRESS_FILE,
    TRACED_STEPS,
)
from rldyno_rig.team.team import Team
from rldyno_rig.trial_file import Budget

BEAT_NS = 1_000_000_000
RECENT_EPISODES = 100
_WISHES = (*DONE_REASONS, "nan")
"""In agreements the later one counts."""


class Recorder:
    """Episodes and progress go to their files once a second; `reason` is set as soon as a budget is reached.

    The loop calls `episode` when something ended, `beat` when the clock has passed `next_beat`, and stops
    once `reason` is set or its step count has reached `max_steps`.

    In a team every worker has one. Loops count a worker's own steps; records have those of all, which are
    `size` times as many. A worker only wishes to stop; `reason` is set where all have agreed. The budget is
    then the share of one worker, and only rank 0 wishes for another reason than a NaN.
    """

    def __init__(
        self, directory: Path, budget: Budget, clock: Clock, spawn_ns: int, team: Optional[Team] = None
    ) -> None:
        self.clock = clock
        self.team = team
        self.size = 1 if team is None else team.size
        self._wish: Optional[str] = None
        if team is not None:
            team.every_so_often = self._agree
        self.spawn_ns = spawn_ns
        self.max_steps: float = math.inf if budget.steps is None else budget.steps
        self.max_episodes: float = math.inf if budget.episodes is None else budget.episodes
        self.wall_ns: Optional[int] = None if budget.wall_s is None else int(budget.wall_s * 1e9)
        self.stop_return: float = math.inf if budget.stop_return is None else budget.stop_return
        self.stop_ends = budget.stop_ends
        self.stop_window: Deque[float] = deque(maxlen=budget.stop_episodes or 1)
        self.recent: Deque[float] = deque(maxlen=RECENT_EPISODES)
        self.reason: Optional[str] = None
        self.message = ""
        self.threshold: Optional[Dict[str, Any]] = (
            None
            if budget.stop_return is None
            else {"reached": False, "step": None, "episode": None, "time_ns": None}
        )
        self.returns: Callable[[], Iterable[float]] = tuple
        """Of the episodes under way."""
        self.learning: Optional[Dict[str, int]] = None
        self.episodes = 0
        self.updates = 0
        self.acts = 0
        self.reads = 0
        self.replay_bytes = 0
        self.replay_rows = 0
        self.next_beat = 0
        self._parent = os.getppid()
        self._rows: List[str] = []
        self._traced: List[np.ndarray] = []
        self._actions = directory / ACTIONS_FILE
        self._episode_file = (directory / EPISODES_FILE).open("w", encoding="ascii")
        self._progress_file = (directory / PROGRESS_FILE).open("w", encoding="ascii")
        self._episode_file.write(",".join(EPISODE_COLUMNS) + "\n")
        self._progress_file.write(",".join(PROGRESS_COLUMNS) + "\n")
        self._flush()

    def start(self) -> None:
        now = self.clock.start()
        self.next_beat = now + BEAT_NS

    def learns(self, step: int, now: int) -> None:
        """From here on updates keep pace with steps: a replay memory is filled first, a rollout is not."""
        self.learning = {"step": self.size * step, "time_ns": now - self.spawn_ns}

    def alive(self) -> None:
        """Show life during start-up: the trial runner watches the file's time of change."""
        os.utime(self._progress_file.fileno())

    def trace(self, step: int, actions: np.ndarray) -> None:
        """Keep the first actions, so that contestants with the same seed can be compared."""
        self._traced.append(actions.copy())

    def episode(
        self, env: int, step: int, now: int, episode_return: float, length: int, terminated: bool
    ) -> None:
        self.episodes += 1
        step *= self.size
        time_ns = now - self.spawn_ns
        finite = math.isfinite(episode_return)
        shown = repr(float(episode_return)) if finite else ""
        self._rows.append(
            "{},{},{},{},{},{},{}\n".format(self.episodes, env, step, time_ns, shown, length, int(terminated))
        )
        if not finite:
            self._not_finite("the return of episode {}".format(self.episodes), episode_return, step)
        if self._wish == "nan":
            return  # an infinite return would pass every stop rule
        self.recent.append(float(episode_return))
        if self.threshold is not None and not self.threshold["reached"]:
            self.stop_window.append(float(episode_return))
            full = len(self.stop_window) == self.stop_window.maxlen
            if full and sum(self.stop_window) / len(self.stop_window) >= self.stop_return:
                self.threshold = {"reached": True, "step": step, "episode": self.episodes, "time_ns": time_ns}
                if self.stop_ends:
                    self._wish_for("return")
        if self.episodes >= self.max_episodes:
            self._wish_for("episodes")

    def beat(self, now: int, step: int, loss: Optional[float]) -> None:
        """Once a second: write, and notice a spent wall budget, a NaN or a trial runner that is gone."""
        self.next_beat = now + BEAT_NS
        if self.wall_ns is not None:
            end = self.clock.started + self.wall_ns
            self.next_beat = min(self.next_beat, max(end, now + 1))
            if now >= end:
                self._wish_for("wall")
        self._check(loss, step)
        self._progress(now, step, loss)
        self._flush()
        if os.getppid() != self._parent:
            raise SystemExit("the trial runner is gone")

    def close(self, now: int, step: int, loss: Optional[float]) -> None:
        self._check(loss, step)
        if self.team is not None:
            self._agree()
        self._progress(now, step, loss)
        self._flush()
        self._episode_file.close()
        self._progress_file.close()
        if self._traced:
            actions = np.concatenate([a.ravel() for a in self._traced])[:TRACED_STEPS]
            self._actions.write_text("\n".join(map(str, actions.tolist())) + "\n")

    def final_return(self) -> Optional[float]:
        return sum(self.recent) / len(self.recent) if self.recent else None

    def spoiled(self) -> Optional[float]:
        """A return under way that is not finite: the environment gave such a reward."""
        return next((value for value in map(float, self.returns()) if not math.isfinite(value)), None)

    def _wish_for(self, reason: str) -> None:
        if self._wish is None or reason == "nan":
            self._wish = reason
        if self.team is None:
            self.reason = self._wish

    def _agree(self) -> None:
        """All ranks come here after the same update, and go on or stop together."""
        assert self.team is not None
        wish = self._wish if self.team.rank == 0 or self._wish == "nan" else None
        agreed = self.team.link.agree(0 if wish is None else 1 + _WISHES.index(wish))
        if agreed:
            self.reason = _WISHES[agreed - 1]

    def _check(self, loss: Optional[float], step: int) -> None:
        reward = self.spoiled()
        if reward is not None:
            self._not_finite("the return of an episode", reward, self.size * step)
        elif loss is not None and not math.isfinite(loss):
            self._not_finite("the loss", loss, self.size * step)

    def _not_finite(self, what: str, value: float, step: int) -> None:
        if self._wish != "nan":
            self._wish_for("nan")
            self.message = "{} became {} by update {} (environment step {})".format(
                what, value, self.updates, step
            )

    def _progress(self, now: int, step: int, loss: Optional[float]) -> None:
        mean = self.final_return()
        fields: List[Any] = [now - self.spawn_ns, self.size * step, self.episodes, self.updates]
        fields += ["" if mean is None else repr(mean), "" if loss is None else repr(float(loss))]
        fields += self.clock.spent[:COMMUNICATE]
        fields.append("" if self.team is None else self.clock.spent[COMMUNICATE])
        self._progress_file.write(",".join(map(str, fields)) + "\n")

    def _flush(self) -> None:
        self._episode_file.writelines(self._rows)
        self._rows.clear()
        self._episode_file.flush()
        self._progress_file.flush()
