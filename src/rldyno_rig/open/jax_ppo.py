"""PPO as one program in JAX: environments, acting, advantages and updates inside one loop."""

from __future__ import annotations

from typing import List, Mapping, NamedTuple, Tuple

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from rldyno_rig.open.jax_net import Descent
from rldyno_rig.open.jax_random import draw_bits, shuffle_bits, shuffled
from rldyno_rig.open.jax_rollout import Carry, Rollouts, logit_gradients, normalised, policy


class Draws(NamedTuple):
    """The random numbers of one round."""

    noise: Array
    """[time, actions, environments], Gumbel."""
    resets: Array
    """[time, components, environments]: the first state of the episode after one that ends there."""
    order: Array
    """[epochs, time · environments]: rows of the rollout."""


class Ppo(Rollouts):
    def draw(self, key: Array) -> Tuple[Array, Draws]:
        epochs = self.hyper.epochs
        sizes = [*self.sizes(), epochs * shuffle_bits(self.rows)]
        key, bits = draw_bits(key, sum(sizes))
        noise, resets, orders = lax.split(bits, sizes)
        order = [shuffled(part, self.rows) for part in orders.reshape(epochs, -1)]
        return key, Draws(*self.drawn(noise, resets), jnp.stack(order))

    def given(self, drawn: Mapping[str, np.ndarray]) -> Draws:
        return Draws(*self.given_steps(drawn), jnp.asarray(drawn["order"].astype(np.int32)))

    def round(self, carry: Carry, draws: Draws) -> Tuple[Carry, Array]:
        """A rollout and the updates from it; also the actions, [time, environments]."""
        rate = self.rate(carry)
        carry, seen = self.collect(carry, draws.noise, draws.resets)
        descent = carry.descent
        if self.learns:
            rows = self.rollout_rows(carry, seen)
            descent = lax.scan(lambda d, order: self.epoch(d, rows, order, rate), descent, draws.order)[0]
        return self.learned(carry, seen, descent), seen.action

    def epoch(self, descent: Descent, rows: Array, order: Array, rate: Array) -> Tuple[Descent, None]:
        count = self.hyper.minibatches
        batches = rows[order].reshape(count, -1, rows.shape[1]).transpose(0, 2, 1)
        return lax.scan(lambda d, batch: (self.update(d, batch, rate), None), descent, batches)

    def update(self, descent: Descent, batch: Array, rate: Array) -> Descent:
        """`batch`: [columns of `rollout_rows`, rows]; advantages are normalised here."""
        at = self.task.components + 2
        if self.hyper.normalise_advantage:
            batch = batch.at[at].set(normalised(batch[at]))
        return self.step(descent, batch, rate)

    def head_gradients(self, logits: Array, value: Array, rest: Array, size: int) -> List[Array]:
        """As `reference.losses.ppo`."""
        hyper = self.hyper
        action, old_log_prob, advantage, ret, old_value = rest
        now = policy(logits, action)
        ratio = jnp.exp(jnp.where(now.taken, now.log_p, 0).sum(0) - old_log_prob)
        plain = ratio * advantage
        clipped = jnp.clip(ratio, 1 - hyper.clip_range, 1 + hyper.clip_range) * advantage
        g = logit_gradients(hyper, now, jnp.where(plain <= clipped, -plain, 0))
        slopes = 2 * (value - ret)
        if hyper.value_clip:
            moved = value - old_value
            kept = old_value + jnp.clip(moved, -hyper.clip_range, hyper.clip_range) - ret
            inside = abs(moved) <= hyper.clip_range
            slopes = jnp.where((value - ret) ** 2 >= kept**2, slopes, jnp.where(inside, 2 * kept, 0))
        return [g / size, hyper.value_coefficient * slopes[None] / size]
