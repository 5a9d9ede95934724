"""Replay, returns and randomness against their definitions."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rldyno_rig.parts.advantage import gae, normalise
from rldyno_rig.parts.exploration import BLOCK, epsilon_greedy
from rldyno_rig.parts.n_step import n_steps, plain_sum
from rldyno_rig.parts.priorities import Priorities
from rldyno_rig.parts.replay import Replay
from rldyno_rig.parts.schedules import linear
from rldyno_rig.parts.streams import gumbel, streams
from rldyno_rig.parts.sum_tree import SumTree


@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.integers(1, 3))
def test_gae_is_the_discounted_sum_of_deltas(seed: int, time: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    reward, value, bootstrap = rng.standard_normal((3, time, count))
    ended = rng.random((time, count)) < 0.3
    last = rng.standard_normal(count)
    got = gae(reward, value, bootstrap, ended, last, 0.9, 0.8)
    for t in range(time):
        for n in range(count):
            total, weight = 0.0, 1.0
            for k in range(t, time):
                following = last[n] if k == time - 1 else value[k + 1, n]
                after = bootstrap[k, n] if ended[k, n] else following
                total += weight * (reward[k, n] + 0.9 * after - value[k, n])
                weight *= 0.9 * 0.8
                if ended[k, n]:
                    break
            np.testing.assert_allclose(got[t, n], total, atol=1e-12)


def test_lambda_one_gives_the_return_itself() -> None:
    reward, value = np.ones((3, 1)), np.zeros((3, 1))
    got = gae(reward, value, value, np.zeros((3, 1), bool), np.array([10.0]), 0.5, 1.0)
    np.testing.assert_allclose(got[:, 0], [1 + 0.5 + 0.25 + 1.25, 1 + 0.5 + 2.5, 1 + 5.0])


def test_normalise_divides_by_the_population_deviation() -> None:
    got = normalise(np.array([1.0, 2.0, 3.0]))
    np.testing.assert_allclose(got, np.array([-1, 0, 1]) / (np.sqrt(2 / 3) + 1e-8))


@given(
    st.integers(1, 4), st.lists(st.sampled_from(["go on", "terminate", "cut off"]), min_size=1, max_size=20)
)
def test_n_step_follows_its_definition(n: int, ends: list[str]) -> None:
    gamma, got = 0.5, []
    push = n_steps(n, gamma, lambda *transition: got.append(transition))
    for t, end in enumerate(ends):
        push(str(t), t % 3, t + 1.0, str(t + 100), end == "terminate", end == "cut off")
    expected = []
    for t in range(len(ends)):
        total, weight = 0.0, 1.0
        for k in range(t, min(t + n, len(ends))):
            total += weight * (k + 1)
            weight *= gamma
            if ends[k] != "go on":
                break
        else:
            if t + n > len(ends):
                continue  # still waiting for its last reward
        expected.append((str(t), t % 3, total, 0.0 if ends[k] == "terminate" else weight, str(k + 100)))
    assert got == expected


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=40), st.integers(0, 2**32 - 1))
def test_sum_tree_finds_what_a_running_sum_finds(priorities: list[float], seed: int) -> None:
    tree = SumTree(len(priorities))
    rng = np.random.default_rng(seed)
    for index in rng.permutation(len(priorities)):
        tree.set(np.array([index]), np.array([priorities[index]]))
    np.testing.assert_allclose(tree.total, sum(priorities))
    mass = rng.random(50) * tree.total * 0.999999
    expected = np.searchsorted(np.cumsum(priorities), mass, side="right")
    assert (np.abs(tree.find(mass) - expected) <= (np.isclose(np.cumsum(priorities)[expected], mass))).all()


def test_sum_tree_sets_duplicates_consistently() -> None:
    tree = SumTree(8)
    tree.set(np.array([3, 3, 5]), np.array([1.0, 2.0, 4.0]))
    assert tree.total == 6.0


def test_priorities_sample_in_proportion_and_weigh_against_it() -> None:
    rng = np.random.default_rng(0)
    priorities = Priorities(4, exponent=1.0, eps=0.0, rng=rng)
    priorities.newest(4)
    priorities.update(np.arange(4), np.array([1.0, 2.0, 3.0, 4.0]))
    index, weight = priorities.sample(100_000, beta=1.0)
    np.testing.assert_allclose(np.bincount(index) / len(index), [0.1, 0.2, 0.3, 0.4], atol=1e-3)
    np.testing.assert_allclose(weight[index == 0][0] / weight[index == 3][0], 4.0)
    assert weight.max() == 1.0


def test_replay_overwrites_the_oldest_and_never_mixes_transitions() -> None:
    replay = Replay(5, 2, (1,), "float32", "float32", "int64")
    assert replay.capacity == 4
    for t in range(5):
        ids = np.array([2.0 * t, 2.0 * t + 1])
        replay.add(ids[:, None], ids, ids, ids, ids[:, None])
    obs, action, reward, discount, next_obs = replay.take(np.arange(4))
    assert sorted(action.tolist()) == [6, 7, 8, 9]
    for other in (obs[:, 0], reward, discount, next_obs[:, 0]):
        np.testing.assert_array_equal(other, action)


def test_epsilon_falls_from_start_to_end() -> None:
    draws = epsilon_greedy(np.random.default_rng(0), 1, 2, 1.0, 0.1, 2_000, np.dtype("int64"))
    greedy = np.array([next(draws)[0] for _ in range(20_000)])
    assert not greedy[0]
    assert abs(greedy[:1_000].mean() - 0.225) < 0.05  # ε falls from 1 to 0.55 here
    assert abs(greedy[2_000:].mean() - 0.9) < 0.01


def test_epsilon_greedy_has_a_mask_only_where_some_are_greedy_and_some_are_not() -> None:
    draws = epsilon_greedy(np.random.default_rng(1), 3, 4, 0.5, 0.5, 1, np.dtype("int32"))
    random = np.random.default_rng(1)
    mask = random.random((BLOCK, 3)) >= 0.5
    actions = random.integers(0, 4, (BLOCK, 3))
    for step in range(BLOCK):
        some_greedy, greedy, others = next(draws)
        assert some_greedy == mask[step].any()
        assert (greedy is None) == (mask[step].all() or not mask[step].any())
        if greedy is not None:
            np.testing.assert_array_equal(greedy, mask[step])
        assert others.dtype == np.int32
        if not mask[step].all():
            np.testing.assert_array_equal(others, actions[step])


def test_returns_are_summed_in_the_same_way_by_every_python() -> None:
    values = [0.1] * 10
    total = 0.0
    for value in values:
        total += value
    assert plain_sum(iter(values)) == total == 0.9999999999999999


def test_one_row_is_stored_like_many() -> None:
    one, many = (Replay(5, rows, (2,), "float32", "float32", "int32") for rows in (1, 1))
    for t in range(7):
        obs, next_obs = np.array([[t, 0.1]], np.float32), np.array([[t + 1, 0.1]], np.float32)
        one.add_one(obs.tobytes(), t, 0.1 * t, 0.3, next_obs.tobytes())
        many.add(obs, np.array([t]), np.array([0.1 * t]), np.array([0.3]), next_obs)
        assert one.size == many.size == min(5, t + 1)
    for a, b in zip(one.take(np.arange(5)), many.take(np.arange(5)), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


def test_gumbel_argmax_samples_the_softmax() -> None:
    logits = np.log([0.2, 0.3, 0.5])
    noise = gumbel(np.random.default_rng(0), (200_000, 3), np.dtype("float64"))
    counts = np.bincount((logits + noise).argmax(1)) / len(noise)
    np.testing.assert_allclose(counts, [0.2, 0.3, 0.5], atol=5e-3)


def test_streams_are_independent_and_repeatable() -> None:
    first, again, other = streams(7), streams(7), streams(8)
    assert first.explore.random() == again.explore.random()
    assert first.sample.random() != first.noise.random()
    assert streams(7).weights.random() != other.weights.random()


def test_linear_schedule() -> None:
    assert linear(1.0, 0.0, 10)(5) == 0.5
    assert linear(1.0, 0.0, 10)(99) == 0.0
    assert linear(0.3, 0.3, 10)(5) == 0.3
