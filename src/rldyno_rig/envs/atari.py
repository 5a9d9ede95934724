"""Atari games through ale-py: grey, 84 × 84, four frames stacked, in threads of the emulator."""

from __future__ import annotations

import sys
from typing import Any, Optional

import numpy as np

from rldyno_rig.envs.atari_rules import FRAME_SKIP, OBSERVATION_SHAPE, SIDE, STACK, AtariRules
from rldyno_rig.envs.environment import Step
from rldyno_rig.envs.stacked import Score, StackedEnvironment


class AtariEnvironment(StackedEnvironment):
    """Environment i is seeded with seed + i, but its no-ops are the emulator's draws, not Gymnasium's."""

    observation_shape = OBSERVATION_SHAPE
    observation_dtype = "uint8"

    def __init__(
        self,
        environment_id: str,
        count: int,
        seed: int,
        max_episode_steps: Optional[int],
        rules: AtariRules,
        threads: int,
    ) -> None:
        game = _game(environment_id)
        from ale_py.vector_env import AtariVectorEnv

        # A lost life must not restart the game: `life_loss_info` ends the episode only, `episodic_life` both.
        self._games = AtariVectorEnv(
            game,
            count,
            num_threads=min(threads, count),
            max_num_frames_per_episode=rules.frame_limit,
            repeat_action_probability=rules.sticky,
            autoreset_mode="SameStep",
            img_height=SIDE,
            img_width=SIDE,
            grayscale=True,
            stack_num=STACK,
            frameskip=FRAME_SKIP,
            maxpool=True,
            noop_max=rules.no_ops,
            life_loss_info=rules.life_loss,
            reward_clipping=False,
            use_fire_reset=rules.fire,
        )
        space: Any = self._games.single_action_space
        self.actions = int(space.n)
        self.count = count
        self.max_episode_steps = (
            rules.frame_limit // FRAME_SKIP if max_episode_steps is None else max_episode_steps
        )
        self._limit = sys.maxsize if max_episode_steps is None else max_episode_steps
        self._seed = seed
        self._clips = rules.clip_rewards
        self.score = Score(np.zeros(count), np.zeros(count, bool))

    def reset(self) -> np.ndarray:
        obs, info = self._games.reset(seed=self._seed)
        self._lives = info["lives"]
        self._lengths = np.zeros(self.count, np.int64)
        self.score.returned[:] = 0
        self.score.over[:] = False
        first: np.ndarray = obs
        return first

    def step(self, actions: np.ndarray) -> Step:
        obs, raw, terminated, truncated, info = self._games.step(actions)
        final_obs, lives, over = obs, info["lives"], self.score.over
        np.add(self.score.returned, raw, out=self.score.returned)
        np.logical_or(terminated, truncated, out=over)
        if over.any():
            # Where a game starts again, the lives are as many as before or more.
            over &= lives >= self._lives
            # ale-py fills the rows of those games only; the others hold what was in memory.
            final_obs = np.where(over[:, None, None, None], info["final_obs"], obs)
        self._lengths += 1
        if (self._lengths >= self._limit).any():
            obs, final_obs, lives = self._cut_off(obs, final_obs, lives, truncated)
        self._lives = lives
        self._lengths[over] = 0
        reward = np.clip(raw, -1.0, 1.0) if self._clips else raw.astype(np.float64)
        return obs, reward, terminated, truncated, final_obs

    def _cut_off(self, obs: Any, final_obs: Any, lives: Any, truncated: Any) -> Any:
        """Truncate the episodes that reached the study's limit; start those again that did not end anyway."""
        over, late = self.score.over, self._lengths >= self._limit
        truncated[late] = True
        again = late & ~over
        if not again.any():
            return obs, final_obs, lives
        over |= again
        final_obs = obs.copy() if final_obs is obs else final_obs
        first, info = self._games.reset(options={"reset_mask": again})
        obs[again] = first[again]
        return obs, final_obs, np.where(again, info["lives"], lives)


def register_games(gymnasium: Any, environment_id: str) -> None:
    """So that Gymnasium knows the games of ale-py."""
    try:
        import ale_py
    except ModuleNotFoundError as error:
        raise ImportError(
            "environment `{}` needs the emulator of Atari games: {}. rldyno installs it in its toolchains; "
            "in your own run `{} -m pip install ale-py gymnasium`".format(
                environment_id, error, sys.executable
            )
        ) from error
    gymnasium.register_envs(ale_py)


def _game(environment_id: str) -> str:
    """`ALE/MsPacman-v5` → `ms_pacman`, as ale-py registers it."""
    import gymnasium

    register_games(gymnasium, environment_id)
    try:
        return str(gymnasium.spec(environment_id).kwargs["game"])
    except gymnasium.error.Error as error:
        raise ValueError("ale-py has no game `{}`: {}".format(environment_id, error)) from error
