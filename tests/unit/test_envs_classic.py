"""Built-in CartPole and MountainCar against Gymnasium's own, and the promises of the environment contract."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from struct import Struct
from typing import Any

import gymnasium
import numpy as np
import pytest

from rldyno_rig import envs
from rldyno_rig.envs.classic import CARTPOLE, MOUNTAIN_CAR, Task
from rldyno_rig.envs.environment import Environment, generator
from rldyno_rig.envs.journal import ENDED, GOES_ON, STEP, TERMINATED, WAITING, Journal
from rldyno_rig.envs.one import OneEnvironment
from rldyno_rig.envs.scalar import ScalarEnvironment
from rldyno_rig.envs.vector import VectorEnvironment

LIMITS = {"CartPole-v0": 200, "CartPole-v1": 500, "MountainCar-v0": 200}
TOTAL_STEPS = 20_000
Policy = Callable[[np.ndarray, np.random.Generator], np.ndarray]


def skilled_or_random(actions: int, random_share: float) -> Policy:
    """Balances the pole, or rocks the car up the hill, so that episodes end in every way they can."""

    def act(obs: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        if actions == 2:
            skilled = (obs[:, 2] + 0.5 * obs[:, 3] > 0).astype(np.int64)
        else:
            skilled = np.where(obs[:, 1] >= 0, 2, 0)
        random = rng.integers(0, actions, len(obs))
        return np.where(rng.random(len(obs)) < random_share, random, skilled)

    return act


def rollout(
    env: Environment, policy: Policy, steps: int
) -> Iterator[tuple[np.ndarray, tuple[np.ndarray, ...]]]:
    """(actions, copies of what the step returned); the first item is the reset, without actions."""
    rng = np.random.default_rng(123)
    obs = env.reset()
    yield np.zeros(0, np.int64), (obs.copy(),)
    for _ in range(steps):
        actions = policy(obs, rng)
        result = env.step(actions)
        obs = result[0]
        yield actions, tuple(array.copy() for array in result)


def bits(array: np.ndarray) -> bytes:
    return array.dtype.str.encode() + array.tobytes()


def assert_like_gymnasium(
    environment_id: str, count: int, limit: int | None, random_share: float
) -> tuple[int, int]:
    """Plays both side by side, comparing every bit; returns the numbers of terminations and truncations."""
    env = envs.make(environment_id, count, seed=7, max_episode_steps=limit)
    theirs = [
        gymnasium.make(environment_id, max_episode_steps=limit, disable_env_checker=True)
        for _ in range(count)
    ]
    policy = skilled_or_random(env.actions, random_share)
    playing = rollout(env, policy, -(-TOTAL_STEPS // count))
    _, (first,) = next(playing)
    assert bits(first) == bits(np.array([their.reset(seed=7 + i)[0] for i, their in enumerate(theirs)]))
    terminations = truncations = 0
    for actions, (obs, reward, terminated, truncated, final_obs) in playing:
        stepped = [their.step(action) for their, action in zip(theirs, actions, strict=True)]
        assert bits(final_obs) == bits(np.array([step[0] for step in stepped]))
        assert bits(reward) == bits(np.array([step[1] for step in stepped]))
        assert bits(terminated) == bits(np.array([step[2] for step in stepped]))
        assert bits(truncated) == bits(np.array([step[3] for step in stepped]))
        for i in np.flatnonzero(terminated | truncated):
            assert bits(obs[i]) == bits(theirs[i].reset()[0])
        going_on = ~(terminated | truncated)
        assert bits(obs[going_on]) == bits(final_obs[going_on])
        terminations += int(terminated.sum())
        truncations += int(truncated.sum())
    return terminations, truncations


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*out of date.*")
@pytest.mark.parametrize("environment_id", LIMITS)
@pytest.mark.parametrize("count", [1, 5, 64])
def test_same_bits_as_gymnasium_when_acting_at_random(environment_id: str, count: int) -> None:
    terminations, truncations = assert_like_gymnasium(environment_id, count, limit=None, random_share=1.0)
    assert (terminations if environment_id.startswith("CartPole") else truncations) > 50


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*out of date.*")
@pytest.mark.parametrize("environment_id", LIMITS)
@pytest.mark.parametrize("count", [1, 40])
def test_same_bits_as_gymnasium_when_acting_with_skill(environment_id: str, count: int) -> None:
    terminations, truncations = assert_like_gymnasium(environment_id, count, limit=None, random_share=0.3)
    assert terminations > 0
    assert truncations > 0


@pytest.mark.slow
@pytest.mark.parametrize(("environment_id", "limit"), [("CartPole-v1", 25), ("MountainCar-v0", 230)])
@pytest.mark.parametrize("count", [1, 40])
def test_same_bits_as_gymnasium_with_another_time_limit(environment_id: str, limit: int, count: int) -> None:
    terminations, truncations = assert_like_gymnasium(environment_id, count, limit, random_share=0.6)
    assert terminations > 0
    assert truncations > 0


@pytest.mark.parametrize("task", [CARTPOLE, MOUNTAIN_CAR])
@pytest.mark.parametrize("count", [1, 3, 33])
def test_scalar_and_vector_forms_give_the_same_bits(task: Task, count: int) -> None:
    policy = skilled_or_random(task.actions, random_share=0.5)
    scalar = rollout(ScalarEnvironment(task, count, 11, 90), policy, 1000)
    vector = rollout(VectorEnvironment(task, count, 11, 90), policy, 1000)
    for (_, ours), (_, others) in zip(scalar, vector, strict=True):
        assert [bits(array) for array in ours] == [bits(array) for array in others]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "environment_id"), [(CARTPOLE, "CartPole-v1"), (MOUNTAIN_CAR, "MountainCar-v0")]
)
def test_states_are_gymnasiums_to_the_last_bit_of_a_double(task: Task, environment_id: str) -> None:
    """Observations are float32 and would hide it, until the difference has grown."""
    theirs: Any = gymnasium.make(environment_id).unwrapped
    theirs.reset(seed=3)
    rng = generator(3)
    state = task.draw(rng)
    states = np.array([state]).T
    policy, choices = skilled_or_random(task.actions, random_share=0.3), np.random.default_rng(0)
    for _ in range(10_000):
        actions = policy(np.array([state]), choices)
        state, terminated = task.advance(state, int(actions[0]))
        assert task.advance_all(states, actions)[0] == terminated == theirs.step(actions[0])[2]
        assert bits(np.array(state)) == bits(states[:, 0]) == bits(np.array(theirs.state))
        if terminated:
            theirs.reset()
            state = task.draw(rng)
            states[:, 0] = state


@pytest.mark.filterwarnings("ignore:.*out of date.*")
@pytest.mark.parametrize(("environment_id", "limit"), LIMITS.items())
def test_registered_limits_and_shapes(environment_id: str, limit: int) -> None:
    env = envs.make(environment_id, 2, 0, None)
    spec = gymnasium.spec(environment_id)
    theirs: Any = gymnasium.make(environment_id)
    assert env.max_episode_steps == spec.max_episode_steps == limit
    assert env.observation_shape == theirs.observation_space.shape
    assert env.actions == theirs.action_space.n
    assert (env.observation_dtype, env.count) == ("float32", 2)


def test_terminated_on_the_last_allowed_step_is_also_truncated() -> None:
    def play(limit: int) -> tuple[int, bool, bool]:
        env = envs.make("CartPole-v1", 1, 0, limit)
        env.reset()
        for length in range(1, 100):
            _, _, terminated, truncated, _ = env.step(np.array([0]))
            if terminated or truncated:
                return length, bool(terminated), bool(truncated)
        raise AssertionError("the pole never fell")

    fall, terminated, truncated = play(500)
    assert (terminated, truncated) == (True, False)
    assert play(fall) == (fall, True, True)
    assert play(fall - 1) == (fall - 1, False, True)


@pytest.mark.parametrize("count", [1, 4, 40])
def test_environment_i_is_seeded_with_seed_plus_i(count: int) -> None:
    together = envs.make("MountainCar-v0", count, 5, None).reset()
    alone = [envs.make("MountainCar-v0", 1, 5 + i, None).reset()[0] for i in range(count)]
    assert bits(together) == bits(np.array(alone))


@pytest.mark.parametrize("count", [1, 40])
def test_reset_starts_over_from_the_seeds(count: int) -> None:
    env = envs.make("CartPole-v1", count, 9, 10)
    policy = skilled_or_random(2, random_share=1.0)
    first, second = (list(rollout(env, policy, 50)) for _ in range(2))
    for (_, ours), (_, others) in zip(first, second, strict=True):
        assert [bits(array) for array in ours] == [bits(array) for array in others]


@pytest.mark.parametrize("count", [1, 4, 40])
def test_the_previous_observation_outlives_the_next_step(count: int) -> None:
    env = envs.make("CartPole-v1", count, 2, 7)
    rng = np.random.default_rng(0)
    obs = env.reset()
    for step in range(1, 100):
        kept = obs.copy()
        next_obs, _, terminated, truncated, final_obs = env.step(rng.integers(0, 2, count))
        assert bits(obs) == bits(kept)
        assert not np.shares_memory(obs, next_obs)
        ended = bool((terminated | truncated).any())
        assert ended == (final_obs is not next_obs)
        assert ended or step % 7
        if ended:
            assert not np.shares_memory(final_obs, next_obs)
            assert not np.shares_memory(final_obs, obs)
        obs = next_obs


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 0, None), "at least one environment"),
        ((1, -1, None), "cannot be negative"),
        ((1, 0, 0), "max_episode_steps must be at least 1"),
    ],
)
def test_impossible_arguments_are_refused(arguments: tuple[int, int, int | None], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        envs.make("CartPole-v1", *arguments)


@pytest.mark.parametrize("environment_id", LIMITS)
@pytest.mark.parametrize("count", [1, 40])
def test_an_action_beyond_the_last_is_refused(environment_id: str, count: int) -> None:
    env = envs.make(environment_id, count, 0, None)
    env.reset()
    with pytest.raises(IndexError):
        env.step(np.full(count, env.actions))


@pytest.mark.parametrize("task", [CARTPOLE, MOUNTAIN_CAR])
def test_one_environment_plays_as_one_of_many(task: Task) -> None:
    policy = skilled_or_random(task.actions, random_share=0.5)
    alone = rollout(OneEnvironment(task, 11, 60), policy, 2000)
    among = rollout(ScalarEnvironment(task, 1, 11, 60), policy, 2000)
    for (_, ours), (_, others) in zip(alone, among, strict=True):
        assert [bits(array) for array in ours] == [bits(array) for array in others]


def test_one_environment_writes_its_steps_into_a_journal() -> None:
    env, step, rows, stored = envs.make("CartPole-v1", 1, 3, 20), 0, 2 * WAITING, list[int]()
    journal = Journal(rows, (4,), "float32", lambda: stored.append(step))
    first = env.reset().copy()
    assert env.keep(journal)
    actions = np.random.default_rng(0).integers(0, 2, 3 * WAITING)
    assert bits(journal.first) == bits(first)
    kinds = {
        (False, False): GOES_ON,
        (False, True): ENDED,
        (True, False): TERMINATED,
        (True, True): TERMINATED,
    }
    seen = set()
    for step, action in enumerate(actions.tolist()):
        obs, reward, terminated, truncated, final_obs = env.step(np.array([action]))
        row = journal.ring[(step + 1) % rows]
        how = kinds[bool(terminated), bool(truncated)]
        assert Struct("=4f" + STEP).unpack_from(row) == (*obs[0].tolist(), action, reward.item(), how)
        if how != GOES_ON:
            assert Struct("=4f").unpack_from(row, journal.final_at) == tuple(final_obs[0].tolist())
        seen.add(how)
    assert seen == {GOES_ON, ENDED, TERMINATED}
    assert stored == [WAITING, 2 * WAITING], "called before a row of the next block is written"
