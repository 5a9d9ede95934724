"""A2C as one program in TensorFlow: the loop of PPO with one update on each rollout."""

from __future__ import annotations

from typing import List, Mapping, NamedTuple

import numpy as np
import tensorflow as tf

from rldyno_rig.open.tensorflow_loops import Tensor, draw_bits
from rldyno_rig.open.tensorflow_net import Descent
from rldyno_rig.open.tensorflow_rollout import Rollouts, logit_gradients, normalised, policy


class Draws(NamedTuple):
    """The random numbers of one round, as those of PPO."""

    noise: Tensor
    resets: Tensor


class A2c(Rollouts):
    def draw(self, at: Tensor) -> Draws:
        sizes = self.sizes()
        return Draws(*self.drawn(*tf.split(draw_bits(self.seed, at, sum(sizes)), sizes)))

    def given(self, drawn: Mapping[str, np.ndarray]) -> Draws:
        return Draws(*self.given_steps(drawn))

    def learned(self, descent: Descent, rows: Tensor, draws: Draws, rate: Tensor) -> Descent:
        """One update on [observation + action, advantage, return, rows]."""
        columns, at = tf.transpose(rows), self.task.components
        advantage = columns[at + 2]
        if self.hyper.normalise_advantage:
            advantage = normalised(advantage)
        batch = tf.concat([columns[: at + 1], advantage[None], columns[at + 3 : at + 4]], 0)
        return self.step(descent, batch, rate)

    def head_gradients(self, logits: Tensor, value: Tensor, rest: List[Tensor], size: int) -> List[Tensor]:
        """As `reference.losses.a2c`."""
        action, advantage, ret = rest
        g = logit_gradients(self.hyper, policy(logits, action), -advantage)
        return [g / size, self.hyper.value_coefficient * 2 * (value - ret)[None] / size]
