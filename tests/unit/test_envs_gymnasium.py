"""The adapter: Gymnasium's environments behind the environment contract."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete, MultiDiscrete

from rldyno_rig import envs

SOURCE = Path(envs.__file__).parents[2]


class Echo(gymnasium.Env[np.ndarray, Any]):
    """Observes the last action everywhere in its box; an episode terminates on its third step."""

    def __init__(self, box: Box, action_space: gymnasium.Space[Any] | None = None) -> None:
        self.observation_space = box
        self.action_space = action_space or Discrete(4)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.length = 0
        return self._observe(0), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.length += 1
        return self._observe(action), 0.5 * action, self.length == 3, False, {}

    def _observe(self, value: int) -> np.ndarray:
        assert self.observation_space.shape is not None
        marks = np.arange(np.prod(self.observation_space.shape)).reshape(self.observation_space.shape)
        return (marks + value).astype(self.observation_space.dtype)


BOXES: dict[str, Any] = {
    "Vector-v0": Box(-1, 1, (3,), np.float64),
    "Matrix-v0": Box(-1, 1, (2, 3), np.float32),
    "Bytes-v0": Box(0, 255, (5,), np.uint8),
    "ChannelLast-v0": Box(0, 255, (5, 4, 3), np.uint8),
    "ChannelFirst-v0": Box(0, 255, (2, 5, 4), np.uint8),
}


@pytest.fixture(autouse=True)
def echoes(monkeypatch: pytest.MonkeyPatch) -> None:
    registered = {name: _spec(name, box=box) for name, box in BOXES.items()}
    registered["ManyActions-v0"] = _spec("ManyActions-v0", BOXES["Vector-v0"], MultiDiscrete([2, 2]))
    registered["FromTen-v0"] = _spec("FromTen-v0", BOXES["Vector-v0"], Discrete(4, start=10))
    for name, spec in registered.items():
        monkeypatch.setitem(gymnasium.registry, name, spec)


def _spec(name: str, box: Box, action_space: gymnasium.Space[Any] | None = None) -> Any:
    entry_point: Any = Echo
    kwargs = {"box": box, "action_space": action_space}
    return gymnasium.envs.registration.EnvSpec(name, entry_point=entry_point, kwargs=kwargs)


@pytest.mark.parametrize(("count", "limit"), [(1, None), (3, 40)])
def test_acrobot_through_the_adapter_is_gymnasiums(count: int, limit: int | None) -> None:
    env = envs.make("Acrobot-v1", count, 7, limit)
    theirs = [gymnasium.make("Acrobot-v1", max_episode_steps=limit) for _ in range(count)]
    assert (env.observation_shape, env.observation_dtype, env.actions) == ((6,), "float32", 3)
    assert env.max_episode_steps == (limit or 500)
    first = [their.reset(seed=7 + i)[0] for i, their in enumerate(theirs)]
    np.testing.assert_array_equal(env.reset(), first)
    rng = np.random.default_rng(0)
    truncations = 0
    for _ in range(1200 // count):
        actions = rng.integers(0, 3, count)
        obs, reward, terminated, truncated, final_obs = env.step(actions)
        for i, their in enumerate(theirs):
            last, *outcome, _ = their.step(actions[i])
            np.testing.assert_array_equal(final_obs[i], last)
            assert [reward[i], terminated[i], truncated[i]] == outcome
            if terminated[i] or truncated[i]:
                last, _ = their.reset()
            np.testing.assert_array_equal(obs[i], last)
        truncations += int(truncated.sum())
    assert truncations > 1


def test_built_in_cartpole_is_the_one_behind_the_adapter() -> None:
    built_in = envs.make("CartPole-v1", 2, 7, 30)
    adapted = envs.make("gymnasium.envs:CartPole-v1", 2, 7, 30)
    assert type(built_in) is not type(adapted)
    np.testing.assert_array_equal(built_in.reset(), adapted.reset())
    rng = np.random.default_rng(0)
    for _ in range(200):
        actions = rng.integers(0, 2, 2)
        for ours, theirs in zip(built_in.step(actions), adapted.step(actions), strict=True):
            assert ours.dtype == theirs.dtype
            np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("name", ["Vector-v0", "Matrix-v0", "Bytes-v0"])
def test_boxes_that_are_no_images_become_float32_vectors(name: str) -> None:
    size = int(np.prod(BOXES[name].shape))
    env = envs.make(name, 2, 0, None)
    assert (env.observation_shape, env.observation_dtype) == ((size,), "float32")
    obs = env.reset()
    assert obs.dtype == np.float32
    np.testing.assert_array_equal(obs, [np.arange(size)] * 2)


def test_images_stay_uint8_and_become_channel_first() -> None:
    env = envs.make("ChannelLast-v0", 1, 0, None)
    assert (env.observation_shape, env.observation_dtype) == ((3, 5, 4), "uint8")
    obs = env.reset()
    assert obs.dtype == np.uint8
    np.testing.assert_array_equal(obs[0], np.arange(60).reshape(5, 4, 3).transpose(2, 0, 1))


def test_channel_first_images_are_left_alone() -> None:
    env = envs.make("ChannelFirst-v0", 1, 0, None)
    assert (env.observation_shape, env.observation_dtype) == ((2, 5, 4), "uint8")
    np.testing.assert_array_equal(env.reset()[0], np.arange(40).reshape(2, 5, 4))


def test_observations_of_the_step_that_ends_an_episode() -> None:
    env = envs.make("Vector-v0", 2, 0, None)
    before = env.reset()
    kept = before.copy()
    for _ in range(2):
        obs, _, terminated, _, final_obs = env.step(np.array([1, 2]))
        assert final_obs is obs
        assert not terminated.any()
        np.testing.assert_array_equal(before, kept)
        before, kept = obs, obs.copy()
    obs, reward, terminated, truncated, final_obs = env.step(np.array([1, 2]))
    np.testing.assert_array_equal(before, kept)
    np.testing.assert_array_equal(obs[:, 0], [0, 0])
    np.testing.assert_array_equal(final_obs[:, 0], [1, 2])
    np.testing.assert_array_equal(reward, [0.5, 1.0])
    assert terminated.all()
    assert not truncated.any()


def test_no_time_limit() -> None:
    assert envs.make("Vector-v0", 1, 0, None).max_episode_steps is None


def test_actions_count_from_zero_wherever_the_environments_do() -> None:
    env = envs.make("FromTen-v0", 1, 0, None)
    env.reset()
    assert env.actions == 4
    assert env.step(np.array([2]))[4][0, 0] == 12


@pytest.mark.parametrize(
    ("environment_id", "message"),
    [
        ("MountainCarContinuous-v0", "actions Box.*only discrete"),
        ("ManyActions-v0", "actions MultiDiscrete.*only discrete"),
        ("Blackjack-v1", "observations Tuple.*only boxes"),
        ("Nonsense-v0", "Gymnasium cannot make environment `Nonsense-v0`"),
        ("no_such_module:Thing-v0", "no_such_module"),
    ],
)
def test_unsupported_environments_are_refused_in_one_sentence(environment_id: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        envs.make(environment_id, 1, 0, None)


def test_without_gymnasium_the_message_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    with pytest.raises(ImportError, match=r"`Acrobot-v1`.*pip install gymnasium"):
        envs.make("Acrobot-v1", 1, 0, None)


def test_built_in_environments_do_not_import_gymnasium() -> None:
    code = (
        "import sys; from rldyno_rig import envs; envs.make('CartPole-v1', 1, 0, None).reset();"
        "sys.exit('gymnasium' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": str(SOURCE)})
