"""DQN as one program in TensorFlow: environments, replay memory and updates inside one loop."""

from __future__ import annotations

from typing import Any, List, Mapping, NamedTuple, Sequence, Tuple

import numpy as np
import tensorflow as tf
from tensorflow.compiler.tf2xla.python import xla

from rldyno_rig.algorithms.replayed import first_update
from rldyno_rig.open.problem import ACTING, LEARNING, ROUND_STEPS, Problem, n_step_tables
from rldyno_rig.open.tensorflow_loops import (
    XP,
    Tensor,
    chosen,
    draw_bits,
    first_states,
    observe,
    picked,
    scan,
    uniform,
)
from rldyno_rig.open.tensorflow_net import Descent, Net, act_outputs, backward, descend, forward, with_ones
from rldyno_rig.open.windows import CUT_OFF, GOES_ON, TERMINATED, ring_of, size_of, stored, window

LONG_AGO = -(1 << 30)
"""Counters that have nothing to wait for stay above this."""


class Draws(NamedTuple):
    """The random numbers of one round."""

    explore: Tensor
    """[time, environments], 0 to 1: an action is greedy where ε is not above it."""
    random: Tensor
    """[time, environments]: the other actions."""
    resets: Tensor
    """[time, components, environments]: the first state of the episode after one that ends there."""
    sample: Tensor
    """[time, updates, batch], 0 to 1: where in the memory the rows of an update are."""


class Carry(NamedTuple):
    descent: Descent
    target: Tensor
    memory: Tensor
    """[time · environments, observation + what followed it + action, how the step ended], a ring of steps."""
    at: Tensor
    """Steps of each environment that are in the memory or were."""
    added: Tensor
    waiting: Tensor
    waits: Tensor
    """As `windows` counts transitions, steps that wait, and steps that waited after each row."""
    until_train: Tensor
    until_sync: Tensor
    state: Tensor
    """[components, environments]."""
    length: Tensor
    """Steps of the episodes under way."""
    step: Tensor
    """Environment steps taken, up to the end of every schedule."""
    episodes: Tensor
    episode_steps: Tensor


class Dqn:
    def __init__(self, problem: Problem) -> None:
        self.task, self.hyper, self.seed = problem.task, problem.hyper, problem.seed
        self.net = Net(problem.spec, problem.dtype)
        self.dtype = self.net.dtype
        self.acts, self.learns = ACTING in problem.parts, LEARNING in problem.parts
        hyper = self.hyper
        self.count = hyper.environments
        self.rows = ROUND_STEPS * self.count
        self.ring = ring_of(hyper)
        self.last_step = max(hyper.schedule_steps, hyper.epsilon_steps)
        self.returns, self.discounts = (table.astype(self.dtype) for table in n_step_tables(problem))
        self.actions = np.arange(self.task.actions, dtype=self.dtype)[:, None]

    def start(self, params: Any, state: np.ndarray) -> Carry:
        hyper, descent = self.hyper, self.net.start(params)
        numbers = dict(
            until_train=first_update(hyper, self.count),
            until_sync=hyper.target_sync,
            **dict.fromkeys(("at", "added", "waiting", "step", "episodes", "episode_steps"), 0),
        )
        return Carry(
            descent=descent,
            target=tf.identity(descent.flat),
            memory=tf.zeros((self.ring.rows, 2 * self.task.components + 2), self.dtype),
            waits=tf.zeros(self.ring.waits, tf.int32),
            state=tf.constant(state.astype(self.dtype)),
            length=tf.zeros(self.count, tf.int32),
            **{name: tf.constant(value, tf.int32) for name, value in numbers.items()},
        )

    def draw(self, at: Tensor) -> Draws:
        """Those of round `at`."""
        hyper, task, count = self.hyper, self.task, self.count
        shapes = [
            (ROUND_STEPS, count),
            (ROUND_STEPS, count),
            (ROUND_STEPS, task.components, count),
            (ROUND_STEPS, hyper.updates_per_train, hyper.batch_size),
        ]
        sizes = [int(np.prod(shape)) for shape in shapes]
        parts = zip(tf.split(draw_bits(self.seed, at, sum(sizes)), sizes), shapes)
        explore, random, resets, sample = (tf.reshape(part, shape) for part, shape in parts)
        actions = tf.floor(uniform(random, self.dtype) * task.actions)
        first = first_states(task, resets, self.dtype)
        return Draws(uniform(explore, self.dtype), actions, first, uniform(sample, self.dtype))

    def given(self, drawn: Mapping[str, np.ndarray]) -> Draws:
        """Recorded numbers as those of a round."""
        return Draws(*(tf.constant(drawn[name].astype(self.dtype)) for name in Draws._fields))

    def round(self, carry: Carry, draws: Draws) -> Tuple[Carry, Tensor]:
        """ROUND_STEPS steps with their updates; also the actions, [time, environments]."""
        return scan(self.step, carry, draws, (self.dtype, (self.count,)))

    def step(self, carry: Carry, drawn: Sequence[Tensor]) -> Tuple[Carry, Tensor]:
        explore, random, reset, sample = drawn
        action = self.choose(carry, explore, random) if self.acts else random
        carry = self.advance(carry, action, reset)
        if not self.learns:
            return carry, action
        due, sync = carry.until_train <= 0, carry.until_sync <= 0
        # Read outside of the condition, as in JAX: inside, XLA copies the memory.
        batches = [self.batch(carry, numbers) for numbers in tf.unstack(sample)]
        descent = tf.cond(due, lambda: self.learn(carry, batches), lambda: carry.descent)
        hyper = self.hyper
        carry = carry._replace(
            descent=descent,
            target=tf.where(sync, descent.flat, carry.target),
            until_train=waiting(carry.until_train, due, hyper.train_every),
            until_sync=waiting(carry.until_sync, sync, hyper.target_sync),
        )
        return carry, action

    def choose(self, carry: Carry, explore: Tensor, random: Tensor) -> Tensor:
        hyper, weights = self.hyper, self.net.named(carry.descent.flat)
        share = tf.minimum(tf.cast(carry.step, self.dtype) / max(1, hyper.epsilon_steps), 1)
        epsilon = hyper.epsilon_start + (hyper.epsilon_end - hyper.epsilon_start) * share
        seen_as = tf.unstack(observe(carry.state, self.dtype))
        q = tf.unstack(act_outputs(self.net, weights, seen_as, "q"), axis=1)
        return tf.where(explore >= epsilon, tf.cast(chosen(q), self.dtype), random)

    def advance(self, carry: Carry, action: Tensor, reset: Tensor) -> Carry:
        """One step of the environments, into the memory."""
        moved, terminated = self.task.advance(XP, tuple(tf.unstack(carry.state)), action)
        after, length = tf.stack(moved), carry.length + 1
        late = length >= self.task.limit
        ended = terminated | late
        how = tf.cast(tf.where(terminated, TERMINATED, tf.where(late, CUT_OFF, GOES_ON)), self.dtype)
        seen_as = (observe(state, self.dtype) for state in (carry.state, after))
        rows = tf.transpose(tf.concat([*seen_as, action[None], how[None]], 0))
        place = carry.at % self.ring.steps * self.count
        added, waiting, waits = stored(XP, self.ring, carry.added, carry.waiting, ended, length)
        if self.ring.waits:
            waits = xla.dynamic_update_slice(carry.waits, waits, place[None])
        return carry._replace(
            memory=xla.dynamic_update_slice(carry.memory, rows, tf.stack([place, 0])),
            at=carry.at + 1,
            added=added,
            waiting=waiting,
            waits=waits if self.ring.waits else carry.waits,
            until_train=carry.until_train - self.count,
            until_sync=carry.until_sync - self.count,
            state=tf.where(ended, reset, after),
            length=tf.where(ended, 0, length),
            step=tf.minimum(carry.step + self.count, self.last_step),
            episodes=carry.episodes + tf.reduce_sum(tf.cast(ended, tf.int32)),
            episode_steps=carry.episode_steps + tf.reduce_sum(tf.where(ended, length, 0)),
        )

    def learn(self, carry: Carry, batches: List[List[Tensor]]) -> Descent:
        hyper, descent = self.hyper, carry.descent
        passed = tf.minimum(tf.cast(carry.step, self.dtype) / hyper.schedule_steps, 1)
        rate = hyper.learning_rate + (hyper.learning_rate_end - hyper.learning_rate) * passed
        for batch in batches:
            descent = self.update(descent, batch, rate, carry.target)
        return descent

    def batch(self, carry: Carry, numbers: Tensor) -> List[Tensor]:
        """obs, action, return, discount, next_obs of the transitions at these places of the memory."""
        components, memory = self.task.components, carry.memory
        size = size_of(XP, self.ring, carry.added)
        place = tf.cast(numbers * tf.cast(size, self.dtype), tf.int32)
        first_row, last_row, length = window(
            XP,
            self.ring,
            (carry.at, carry.added, carry.waiting),
            place,
            lambda row: tf.gather(carry.waits, row),
            lambda row: tf.gather(memory, row)[:, -1] == GOES_ON,
        )
        taken = tf.gather(memory, first_row)
        last = taken if last_row is first_row else tf.gather(memory, last_row)
        goes_on = tf.cast(last[:, -1] != TERMINATED, self.dtype)
        discount, returned = (tf.gather(table, length) for table in (self.discounts, self.returns))
        obs, next_obs = taken[:, :components], last[:, components : 2 * components]
        return [obs, taken[:, 2 * components], returned, discount * goes_on, next_obs]

    def update(self, descent: Descent, batch: Sequence[Tensor], rate: Tensor, target: Tensor) -> Descent:
        """As `reference.losses.dqn`."""
        obs, action, reward, discount, next_obs = batch
        net, delta = self.net, self.hyper.huber_delta
        weights, fixed = net.named(descent.flat), net.named(target)
        after, x = (with_ones(tf.transpose(rows)) for rows in (next_obs, obs))
        (q_next,), _ = forward(net, fixed, after)
        chooser = forward(net, weights, after)[0][0] if self.hyper.double else q_next
        best = tf.cast(chosen(tf.unstack(chooser)), self.dtype)
        goal = reward + discount * picked(q_next, best == self.actions, 0)
        (q,), tape = forward(net, weights, x)
        taken = action == self.actions
        slope = tf.clip_by_value(picked(q, taken, 0) - goal, -delta, delta) / action.shape[0]
        g = tf.where(taken, slope, tf.zeros_like(q))
        return descend(net, descent, backward(net, weights, x, tape, [g]), rate)

    def update_on(self, descent: Descent, batch: Any, rate: Tensor, target: Tensor) -> Descent:
        """The update on a batch of the closed division."""
        return self.update(descent, [tf.cast(array, self.dtype) for array in batch], rate, target)


def waiting(until: Tensor, due: Tensor, every: int) -> Tensor:
    """Steps until the next time, once more after one that was due."""
    return tf.maximum(tf.where(due, until + every, until), LONG_AGO)
