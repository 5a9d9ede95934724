"""Transitions over n steps of one episode."""

from __future__ import annotations

import sys
from collections import deque
from functools import partial, reduce
from operator import add, mul
from typing import Callable, Deque, Iterable, Tuple

Keep = Callable[[bytes, int, float, float, bytes], None]
"""Takes obs, action, return, discount and next_obs of one transition; observations as their bytes."""
Push = Callable[[bytes, int, float, bytes, bool, bool], None]

# Since 3.12 `sum` compensates for rounding, but toolchains of all Pythons must learn from the same numbers.
# Before, it is faster: 0.4 µs for 10 rewards, `reduce` 0.65.
plain_sum: Callable[[Iterable[float]], float] = sum if sys.version_info < (3, 12) else partial(reduce, add)


def n_steps(n: int, gamma: float, keep: Keep) -> Push:
    """A window over one environment: `push` takes a step of it and keeps the transitions that this completes.

    Their return is Σ_{k<n} γᵏ r_k, their discount γⁿ · (1 − terminated); n is less where an episode ends.
    """
    if n == 1:
        return _one_step(gamma, keep)
    powers = [gamma**k for k in range(n + 1)]
    whole = powers[n]
    # Oldest first. The first transition of a full window is kept already; the next step pushes it out.
    starts: Deque[Tuple[bytes, int]] = deque(maxlen=n)
    rewards: Deque[float] = deque(maxlen=n)

    def push(
        obs: bytes, action: int, reward: float, next_obs: bytes, terminated: bool, truncated: bool
    ) -> None:
        starts.append((obs, action))
        rewards.append(reward)
        if terminated or truncated:
            while starts:
                first, first_action = starts.popleft()
                discount = 0.0 if terminated else powers[len(rewards)]
                keep(first, first_action, plain_sum(map(mul, powers, rewards)), discount, next_obs)
                rewards.popleft()
        elif len(starts) == n:
            first, first_action = starts[0]
            keep(first, first_action, plain_sum(map(mul, powers, rewards)), whole, next_obs)

    return push


def _one_step(gamma: float, keep: Keep) -> Push:
    def push(
        obs: bytes, action: int, reward: float, next_obs: bytes, terminated: bool, truncated: bool
    ) -> None:
        keep(obs, action, reward, 0.0 if terminated else gamma, next_obs)

    return push
