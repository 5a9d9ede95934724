"""A memory that keeps each frame once gives the transitions that an ordinary one gives."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rldyno_rig.algorithms.replayed import memory_of, storing
from rldyno_rig.envs.environment import Step
from rldyno_rig.envs.stacked import Score, StackedEnvironment
from rldyno_rig.parts.frames import Frames, frame_bytes, lasting
from rldyno_rig.parts.replay import Replay

STACK, SIDE = 4, 3
SHAPE = (STACK, SIDE, SIDE)
GOES_ON, TERMINATES, CUT_OFF, LOSES_A_LIFE = range(4)


class Screens(StackedEnvironment):
    """Random screens; `ends[t][i]` says how step t of environment i ends."""

    observation_shape, observation_dtype, actions = SHAPE, "uint8", 5
    max_episode_steps = None

    def __init__(self, ends: list[list[int]], jumps: bool) -> None:
        self.count, self.ends, self.jumps = len(ends[0]), iter(ends), jumps
        self.rng = np.random.default_rng(0)
        self.score = Score(np.zeros(self.count), np.zeros(self.count, bool))

    def reset(self) -> np.ndarray:
        self.obs = np.stack([self._first() for _ in range(self.count)])
        return self.obs

    def _first(self) -> np.ndarray:
        """As the emulator: empty frames, then the first one."""
        stack = np.zeros(SHAPE, np.uint8)
        stack[-1] = self.rng.integers(0, 256, SHAPE[1:])
        return stack

    def step(self, actions: np.ndarray) -> Step:
        ends = np.array(next(self.ends))
        new = self.rng.integers(0, 256, (self.count, 1, SIDE, SIDE)).astype(np.uint8)
        obs = final_obs = np.concatenate([self.obs[:, 1:], new], 1)
        if self.jumps:
            obs[0] = self.rng.integers(0, 256, SHAPE)
        if ends.any():
            final_obs = obs.copy()
            for i in np.flatnonzero((ends == TERMINATES) | (ends == CUT_OFF)):
                obs[i] = self._first()
        self.obs = obs
        reward = self.rng.normal(size=self.count)
        return obs, reward, (ends == TERMINATES) | (ends == LOSES_A_LIFE), ends == CUT_OFF, final_obs


def job_of(env: Screens, capacity: int, n_step: int) -> Any:
    hyper = SimpleNamespace(capacity=capacity, n_step=n_step, gamma=0.9)
    network = SimpleNamespace(observation_shape=SHAPE, observation_dtype="uint8")
    spec = SimpleNamespace(hyper=hyper, network=network)
    kinds = {"dtype": np.dtype("float32"), "index_dtype": np.dtype("int64")}
    return SimpleNamespace(spec=spec, env=env, recorder=SimpleNamespace(returns=None), **kinds)


def episodes(environments: int) -> Any:
    end = st.sampled_from([GOES_ON] * 5 + [TERMINATES, CUT_OFF, LOSES_A_LIFE])
    return st.lists(st.lists(end, min_size=environments, max_size=environments), min_size=1, max_size=80)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(data=st.data(), n_step=st.integers(1, 4), jumps=st.booleans(), capacity=st.integers(3, 40))
@pytest.mark.parametrize("environments", [1, 3])
def test_transitions_are_those_of_an_ordinary_memory(
    environments: int, data: Any, n_step: int, jumps: bool, capacity: int
) -> None:
    env = Screens(data.draw(episodes(environments)), jumps)
    job, rows = job_of(env, capacity, n_step), environments if n_step == 1 else 1
    first = env.reset()
    memory, store, _ = memory_of(job, first, rows)
    plain = Replay(capacity, rows, SHAPE, "uint8", job.dtype, job.index_dtype)
    store_plain = storing(job, plain, first, lambda reward: None)
    actions = np.arange(environments)
    for step in list(env.ends):
        env.ends = iter([step])
        result = env.step(actions)
        store(actions, *result)
        store_plain(actions, *result)
        assert memory.stored() == plain.stored()
        index = np.arange(plain.size)
        for ours, theirs in zip(memory.take(index), plain.take(index), strict=True):
            np.testing.assert_array_equal(ours, theirs)
    if plain.size:
        draws = [kept.sampler(np.random.default_rng(1), 8)() for kept in (memory, plain)]
        for ours, theirs in zip(*draws, strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_each_frame_is_kept_once() -> None:
    """Wherever episodes end: no more places than steps, and two for each episode that begins."""
    steps, ends = 300, 7
    env = Screens([[TERMINATES if t % ends == 6 else GOES_ON] for t in range(steps)], jumps=False)
    frames = Frames(50, 1, SHAPE)
    frames.begin(env.reset())
    for _ in range(steps):
        obs, *_, final_obs = env.step(np.zeros(1, int))
        frames.follow(obs, final_obs)
    assert frames._unused <= 50 + 1 + 2 * (50 // ends + 1)


def test_a_million_transitions_of_atari_take_7_gigabytes() -> None:
    env = Screens([[GOES_ON]], jumps=False)
    job = job_of(env, 1_000_000, 1)
    job.spec.network.observation_shape = (4, 84, 84)
    memory, *_ = memory_of(job, np.zeros((1, 4, 84, 84), np.uint8))
    assert 7.05e9 < frame_bytes(1_000_000, 1, (4, 84, 84), 1) < memory.nbytes < 7.15e9


def test_frames_last_as_long_as_transitions_do() -> None:
    assert lasting(capacity=100, environments=1, stack=4, n_step=1) == 101 + 4 + 2
    assert lasting(capacity=100, environments=8, stack=4, n_step=3) == 13 + 4 + 6
