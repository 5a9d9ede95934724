"""PPO as one program in TensorFlow: environments, acting, advantages and updates inside one loop."""

from __future__ import annotations

from typing import List, Mapping, NamedTuple

import numpy as np
import tensorflow as tf

from rldyno_rig.open.tensorflow_loops import Tensor, draw_bits, picked, repeat
from rldyno_rig.open.tensorflow_net import Descent
from rldyno_rig.open.tensorflow_rollout import Rollouts, logit_gradients, normalised, policy


class Draws(NamedTuple):
    """The random numbers of one round."""

    noise: Tensor
    """[time, actions, environments], Gumbel."""
    resets: Tensor
    """[time, components, environments]: the first state of the episode after one that ends there."""
    order: Tensor
    """[epochs, time · environments]: rows of the rollout."""


class Ppo(Rollouts):
    def draw(self, at: Tensor) -> Draws:
        """Those of round `at`."""
        sizes = [*self.sizes(), self.hyper.epochs * self.rows]
        noise, resets, keys = tf.split(draw_bits(self.seed, at, sum(sizes)), sizes)
        order = tf.argsort(tf.bitcast(tf.reshape(keys, (self.hyper.epochs, self.rows)), tf.int32), 1)
        return Draws(*self.drawn(noise, resets), order)

    def given(self, drawn: Mapping[str, np.ndarray]) -> Draws:
        return Draws(*self.given_steps(drawn), tf.constant(drawn["order"].astype(np.int32)))

    def learned(self, descent: Descent, rows: Tensor, draws: Draws, rate: Tensor) -> Descent:
        return repeat(lambda d, order: self.epoch(d, rows, order[0], rate), descent, [draws.order])

    def epoch(self, descent: Descent, rows: Tensor, order: Tensor, rate: Tensor) -> Descent:
        shape = (self.hyper.minibatches, -1, rows.shape[1])
        batches = tf.transpose(tf.reshape(tf.gather(rows, order), shape), (0, 2, 1))
        return repeat(lambda d, batch: self.update(d, batch[0], rate), descent, [batches])

    def update(self, descent: Descent, batch: Tensor, rate: Tensor) -> Descent:
        """`batch`: [columns of `rollout_rows`, rows]; advantages are normalised here."""
        at = self.task.components + 2
        if self.hyper.normalise_advantage:
            batch = tf.concat([batch[:at], normalised(batch[at])[None], batch[at + 1 :]], 0)
        return self.step(descent, batch, rate)

    def head_gradients(self, logits: Tensor, value: Tensor, rest: List[Tensor], size: int) -> List[Tensor]:
        """As `reference.losses.ppo`."""
        hyper, zero = self.hyper, tf.zeros_like(value)
        action, old_log_prob, advantage, ret, old_value = rest
        now = policy(logits, action)
        ratio = tf.exp(picked(now.log_p, now.taken, 0) - old_log_prob)
        plain = ratio * advantage
        clipped = tf.clip_by_value(ratio, 1 - hyper.clip_range, 1 + hyper.clip_range) * advantage
        g = logit_gradients(hyper, now, tf.where(plain <= clipped, -plain, zero))
        slopes = 2 * (value - ret)
        if hyper.value_clip:
            moved = value - old_value
            kept = old_value + tf.clip_by_value(moved, -hyper.clip_range, hyper.clip_range) - ret
            inside = tf.where(abs(moved) <= hyper.clip_range, 2 * kept, zero)
            slopes = tf.where((value - ret) ** 2 >= kept**2, slopes, inside)
        return [g / size, hyper.value_coefficient * slopes[None] / size]
