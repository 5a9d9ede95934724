"""Transitions of n steps in a ring of single steps are those that the closed division's memory holds."""

from __future__ import annotations

import numpy as np
import pytest

from rldyno_rig.hyper import Replayed
from rldyno_rig.open.windows import CUT_OFF, GOES_ON, TERMINATED, ring_of, size_of, stored, window
from rldyno_rig.parts.n_step import n_steps
from rldyno_rig.parts.replay import Replay

GAMMA = 0.9
STEPS = 120


def episodes(count: int, seed: int) -> np.ndarray:
    """How each step ends, [time, environments]: episodes of 1 to 14 steps, and a few much longer ones."""
    rng = np.random.default_rng(seed)
    how = np.zeros((STEPS, count), np.int8)
    for env in range(count):
        at = -1
        while (at := at + int(rng.integers(30, 60) if rng.random() < 0.1 else rng.integers(1, 15))) < STEPS:
            how[at, env] = rng.choice([CUT_OFF, TERMINATED])
    return how


@pytest.mark.parametrize("n", [1, 2, 3, 10])
@pytest.mark.parametrize(
    ("count", "capacity"), [(1, 1000), (1, 37), (1, 5), (3, 1000), (3, 100), (4, 39), (5, 3), (16, 100)]
)
def test_every_place_holds_the_transition_of_the_closed_memory(count: int, capacity: int, n: int) -> None:
    """After each step, in memories that fill, wrap around, do not divide, or hold less than waits."""
    hyper = Replayed(environments=count, n_step=n, capacity=capacity)
    float64, int64 = np.dtype("float64"), np.dtype("int64")
    closed = Replay(capacity, count if n == 1 else 1, (1,), "int64", float64, int64)
    pushes = [n_steps(n, GAMMA, closed.add_one) for _ in range(count)]
    ring = ring_of(hyper)
    ended, waits = np.zeros(ring.rows, np.int8), np.zeros(ring.waits, np.int64)
    obs, returns = (
        np.zeros(ring.rows, np.int64),
        np.array([sum(GAMMA**i for i in range(k)) for k in range(n + 1)]),
    )
    length = np.zeros(count, np.int64)
    added, waiting = np.array(0), np.array(0)
    for at, how in enumerate(episodes(count, seed=count * capacity)):
        length += 1
        rows = np.arange(count) + at % ring.steps * count
        # An observation is the number of its step; what follows it is negative.
        numbers = at * count + np.arange(count)
        obs[rows], ended[rows] = numbers, how
        added, waiting, after = stored(np, ring, added, waiting, how != GOES_ON, length)
        if ring.waits:
            waits[rows] = after
        for env, push in enumerate(pushes):
            number = numbers[env]
            push(number.tobytes(), 0, 1.0, (-number).tobytes(), how[env] == TERMINATED, how[env] == CUT_OFF)
        length[how != GOES_ON] = 0

        assert (ring.capacity, size_of(np, ring, added)) == (closed.capacity, closed.size)
        places = np.arange(closed.size)
        counts = at + 1, added, waiting
        first, last, steps = window(
            np, ring, counts, places, waits.__getitem__, lambda row: ended[row] == GOES_ON
        )
        np.testing.assert_array_equal(obs[first], closed.obs[: closed.size, 0])
        np.testing.assert_array_equal(-obs[last], closed.next_obs[: closed.size, 0])
        np.testing.assert_allclose(returns[steps], closed.reward[: closed.size], rtol=1e-14)
        discount = np.where(ended[last] == TERMINATED, 0, GAMMA**steps)
        np.testing.assert_allclose(discount, closed.discount[: closed.size], rtol=1e-14)
    assert closed.added > 2 * capacity or capacity == 1000
