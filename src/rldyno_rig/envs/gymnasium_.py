"""Any Gymnasium environment with discrete actions and box observations."""

from __future__ import annotations

import sys
from typing import Any, Callable, Optional, Tuple

import numpy as np

from rldyno_rig.envs.atari import register_games
from rldyno_rig.envs.atari_rules import is_atari
from rldyno_rig.envs.environment import Environment, Step


class GymnasiumEnvironment(Environment):
    def __init__(self, environment_id: str, count: int, seed: int, max_episode_steps: Optional[int]) -> None:
        gymnasium = _gymnasium(environment_id)
        self._envs = [_make(gymnasium, environment_id, max_episode_steps) for _ in range(count)]
        first = self._envs[0]
        if not isinstance(first.action_space, gymnasium.spaces.Discrete):
            raise ValueError(
                "environment `{}` has actions {}: only discrete ones are supported".format(
                    environment_id, first.action_space
                )
            )
        if not isinstance(first.observation_space, gymnasium.spaces.Box):
            raise ValueError(
                "environment `{}` has observations {}: only boxes are supported".format(
                    environment_id, first.observation_space
                )
            )
        self.observation_shape, self.observation_dtype, self._arrange = _observations(first.observation_space)
        self.actions = int(first.action_space.n)
        self.count = count
        self.max_episode_steps = first.spec.max_episode_steps
        self._first_action = int(first.action_space.start)
        self._seed = seed
        self._obs, self._previous_obs, self._final_obs = (
            np.zeros((count,) + self.observation_shape, self.observation_dtype) for _ in range(3)
        )
        self._reward = np.zeros(count)
        self._terminated = np.zeros(count, bool)
        self._truncated = np.zeros(count, bool)

    def reset(self) -> np.ndarray:
        self._swap()
        for i, env in enumerate(self._envs):
            self._obs[i] = self._arrange(env.reset(seed=self._seed + i)[0])
        return self._obs

    def step(self, actions: np.ndarray) -> Step:
        self._swap()
        obs = final_obs = self._obs
        for i, action in enumerate(actions.tolist()):
            row, *outcome, _ = self._envs[i].step(self._first_action + action)
            obs[i] = self._arrange(row)
            self._reward[i], self._terminated[i], self._truncated[i] = outcome
        ended = (self._terminated | self._truncated).nonzero()[0]
        if ended.size:
            final_obs = self._final_obs
            final_obs[:] = obs
            for i in ended.tolist():
                obs[i] = self._arrange(self._envs[i].reset()[0])
        return obs, self._reward, self._terminated, self._truncated, final_obs

    def _swap(self) -> None:
        self._obs, self._previous_obs = self._previous_obs, self._obs


def _observations(box: Any) -> Tuple[Tuple[int, ...], str, Callable[[np.ndarray], np.ndarray]]:
    """(shape, dtype, arrangement): uint8 images channel-first, anything else one float32 vector."""
    if box.dtype != np.uint8 or len(box.shape) != 3:
        return (int(np.prod(box.shape)),), "float32", np.ravel
    if box.shape[0] < box.shape[2]:
        return tuple(box.shape), "uint8", np.asarray
    height, width, channels = box.shape
    return (channels, height, width), "uint8", lambda image: image.transpose(2, 0, 1)


def _make(gymnasium: Any, environment_id: str, max_episode_steps: Optional[int]) -> Any:
    try:
        return gymnasium.make(environment_id, max_episode_steps=max_episode_steps, disable_env_checker=True)
    except (gymnasium.error.Error, ModuleNotFoundError) as error:
        raise ValueError(
            "Gymnasium cannot make environment `{}`: {}".format(environment_id, error)
        ) from error


def _gymnasium(environment_id: str) -> Any:
    try:
        import gymnasium
    except ModuleNotFoundError as error:
        if error.name != "gymnasium":
            raise
        raise ImportError(
            "environment `{}` is not built in and needs Gymnasium, which this toolchain lacks: "
            "run `{} -m pip install gymnasium`".format(environment_id, sys.executable)
        ) from error
    if is_atari(environment_id):
        register_games(gymnasium, environment_id)
    return gymnasium
