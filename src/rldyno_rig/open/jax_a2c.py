"""A2C as one program in JAX: the loop of PPO with one update on each rollout."""

from __future__ import annotations

from typing import List, Mapping, NamedTuple, Tuple

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from rldyno_rig.open.jax_random import draw_bits
from rldyno_rig.open.jax_rollout import Carry, Rollouts, Seen, logit_gradients, normalised, policy


class Draws(NamedTuple):
    """The random numbers of one round, as those of PPO."""

    noise: Array
    resets: Array


class A2c(Rollouts):
    def draw(self, key: Array) -> Tuple[Array, Draws]:
        sizes = self.sizes()
        key, bits = draw_bits(key, sum(sizes))
        return key, Draws(*self.drawn(*lax.split(bits, sizes)))

    def given(self, drawn: Mapping[str, np.ndarray]) -> Draws:
        return Draws(*self.given_steps(drawn))

    def round(self, carry: Carry, draws: Draws) -> Tuple[Carry, Array]:
        """A rollout and the update from it; also the actions, [time, environments]."""
        rate = self.rate(carry)
        carry, seen = self.collect(carry, draws.noise, draws.resets)
        descent = carry.descent
        if self.learns:
            descent = self.step(descent, self.batch(carry, seen), rate)
        return self.learned(carry, seen, descent), seen.action

    def batch(self, carry: Carry, seen: Seen) -> Array:
        """[observation + action, advantage, return, rows]."""
        rows, at = self.rollout_rows(carry, seen).T, self.task.components
        advantage = rows[at + 2]
        if self.hyper.normalise_advantage:
            advantage = normalised(advantage)
        return jnp.concatenate([rows[: at + 1], advantage[None], rows[at + 3][None]])

    def head_gradients(self, logits: Array, value: Array, rest: Array, size: int) -> List[Array]:
        """As `reference.losses.a2c`."""
        action, advantage, ret = rest
        g = logit_gradients(self.hyper, policy(logits, action), -advantage)
        return [g / size, self.hyper.value_coefficient * 2 * (value - ret)[None] / size]
