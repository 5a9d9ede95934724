"""What PPO and A2C share in TensorFlow: environments, acting, advantages, one step down a gradient."""

from __future__ import annotations

from typing import Any, List, Mapping, NamedTuple, Sequence, Tuple

import numpy as np
import tensorflow as tf

from rldyno_rig.open.problem import ACTING, LEARNING, Problem
from rldyno_rig.open.tensorflow_loops import (
    XP,
    Tensor,
    chosen,
    first_states,
    observe,
    picked,
    repeat,
    scan,
    uniform,
)
from rldyno_rig.open.tensorflow_net import Descent, Net, act_outputs, backward, descend, forward, with_ones

CHUNK_ROWS = 1024
"""Rows that one pass through the network takes on a CPU, so that its activations stay in the core's cache."""


class Carry(NamedTuple):
    descent: Descent
    state: Tensor
    """[components, environments]."""
    length: Tensor
    """Steps of the episodes under way."""
    step: Tensor
    """Environment steps taken, up to the end of the schedule of the learning rate."""
    episodes: Tensor
    episode_steps: Tensor


class Seen(NamedTuple):
    """What a rollout keeps of each step, [time, …, environments]."""

    state: Tensor
    logits: Tensor
    action: Tensor
    terminated: Tensor
    length: Tensor
    """Of the episode, this step included."""


class Rollouts:
    """Rollouts of one policy; how it learns from them is the algorithm's part."""

    def __init__(self, problem: Problem) -> None:
        self.task, self.hyper, self.seed = problem.task, problem.hyper, problem.seed
        self.net = Net(problem.spec, problem.dtype)
        self.dtype = self.net.dtype
        self.rows = self.hyper.environments * self.hyper.rollout_steps
        self.chunk = CHUNK_ROWS if problem.device == "cpu" else self.rows
        self.acts, self.learns = ACTING in problem.parts, LEARNING in problem.parts
        self.actions = np.arange(self.task.actions, dtype=self.dtype)[:, None]

    def start(self, params: Any, state: np.ndarray) -> Carry:
        zeros = (np.zeros(shape, np.int32) for shape in (self.hyper.environments, (), (), ()))
        return Carry(self.net.start(params), *map(tf.constant, (state.astype(self.dtype), *zeros)))

    def sizes(self) -> List[int]:
        """Random numbers of 32 bits that the steps of a round take: for the noise, and for first states."""
        return [self.rows * self.task.actions, self.rows * self.task.components]

    def drawn(self, noise: Tensor, resets: Tensor) -> Tuple[Tensor, Tensor]:
        """Bits → noise of the actions, and first states."""
        task, time, count = self.task, self.hyper.rollout_steps, self.hyper.environments
        numbers = uniform(tf.reshape(noise, (time, task.actions, count)), self.dtype)
        first = first_states(task, tf.reshape(resets, (time, task.components, count)), self.dtype)
        return -tf.math.log(-tf.math.log(numbers)), first

    def given_steps(self, drawn: Mapping[str, np.ndarray]) -> Tuple[Tensor, Tensor]:
        """Recorded numbers as those of a round."""
        noise, resets = (tf.constant(drawn[name].astype(self.dtype)) for name in ("noise", "resets"))
        return noise, resets

    def round(self, carry: Carry, draws: Any) -> Tuple[Carry, Tensor]:
        """A rollout and the updates from it; also the actions, [time, environments]."""
        hyper, descent = self.hyper, carry.descent
        rate = hyper.learning_rate + (hyper.learning_rate_end - hyper.learning_rate) * (
            tf.cast(carry.step, self.dtype) / hyper.schedule_steps
        )
        state, length, seen = self.collect(carry, draws.noise, draws.resets)
        if self.learns:
            descent = self.learned(descent, self.rollout_rows(descent.flat, seen, state), draws, rate)
        ended = seen.terminated | (seen.length >= self.task.limit)
        steps = tf.reduce_sum(tf.where(ended, seen.length, 0))
        carry = Carry(
            descent,
            state,
            length,
            step=tf.minimum(carry.step + self.rows, hyper.schedule_steps),
            episodes=carry.episodes + tf.reduce_sum(tf.cast(ended, tf.int32)),
            episode_steps=carry.episode_steps + steps,
        )
        return carry, seen.action

    def learned(self, descent: Descent, rows: Tensor, draws: Any, rate: Tensor) -> Descent:
        """After the updates from the rows of a rollout."""
        raise NotImplementedError

    def collect(self, carry: Carry, noises: Tensor, resets: Tensor) -> Tuple[Tensor, Tensor, Seen]:
        """(states after the rollout, lengths of the episodes then, the rollout)."""
        task, weights = self.task, self.net.named(carry.descent.flat)

        def step(given: Tuple[Tensor, Tensor], drawn: Sequence[Tensor]) -> Tuple[Any, Tensor]:
            state, length = given
            noise, reset = drawn
            seen_as = tf.unstack(observe(state, self.dtype))
            logits = tf.zeros_like(noise)
            if self.acts:
                logits = tf.transpose(act_outputs(self.net, weights, seen_as, "policy"))
            action = tf.cast(chosen(tf.unstack(logits + noise)), self.dtype)
            moved, terminated = task.advance(XP, tuple(tf.unstack(state)), action)
            length = length + 1
            ended = terminated | (length >= task.limit)
            after = tf.where(ended, reset, tf.stack(moved))
            # One tensor: on a CPU each one that is kept costs a kernel.
            rest = tf.stack([action, tf.cast(terminated, self.dtype), tf.cast(length, self.dtype)])
            return (after, tf.where(ended, 0, length)), tf.concat([state, logits, rest], 0)

        kind = self.dtype, (task.components + task.actions + 3, self.hyper.environments)
        given = [noises, resets]
        (state, length), seen = scan(step, (carry.state, carry.length), given, kind)
        parts = tf.split(seen, [task.components, task.actions, 1, 1, 1], 1)
        action, terminated, lengths = (part[:, 0] for part in parts[2:])
        kept = Seen(parts[0], parts[1], action, terminated > 0, tf.cast(lengths, tf.int32))
        return state, length, kept

    def rollout_rows(self, flat: Tensor, seen: Seen, last: Tensor) -> Tensor:
        """[time · environments, observation + action, log-probability, advantage, return, value]."""
        time, components, count = seen.state.shape
        weights = self.net.named(flat)
        states = tf.reshape(tf.transpose(seen.state, (1, 0, 2)), (components, -1))
        value = in_chunks(
            lambda x: forward(self.net, weights, x, ("critic",))[0][0][0],
            with_ones(observe(states, self.dtype)),
            self.chunk,
        )
        value = tf.reshape(value, (time, count))
        advantage = self.advantages(weights, seen, value, last)
        log_p = tf.nn.log_softmax(seen.logits, 1)
        log_prob = picked(log_p, seen.action[:, None] == self.actions, 1)
        rest = tf.stack((seen.action, log_prob, advantage, advantage + value, value), 1)
        rows = tf.concat([observe(seen.state, self.dtype), rest], 1)
        return tf.reshape(tf.transpose(rows, (0, 2, 1)), (self.rows, -1))

    def advantages(self, weights: Any, seen: Seen, value: Tensor, last: Tensor) -> Tensor:
        """Generalised advantage estimation, as `parts.advantage.gae`; `last` are the states after it."""
        hyper = self.hyper
        late = seen.length >= self.task.limit
        ended, cut_off = seen.terminated | late, late & ~seen.terminated
        # A time limit cuts an environment off once in a rollout at most, so one row for each is enough.
        before, action = (
            picked(t, m, 0) for t, m in ((seen.state, cut_off[:, None]), (seen.action, cut_off))
        )
        final = tf.stack(self.task.advance(XP, tuple(tf.unstack(before)), action)[0])
        rows = tf.unstack(observe(tf.concat([last, final], 1), self.dtype))
        after, bootstrap = tf.split(act_outputs(self.net, weights, rows, "value")[:, 0], 2)
        following = tf.concat([value[1:], after[None]], 0)
        zero = tf.zeros_like(following)
        following = tf.where(ended, tf.where(cut_off, bootstrap, zero), following)
        delta = self.task.reward + hyper.gamma * following - value
        return decayed_sums(delta, tf.where(ended, zero, hyper.gamma * hyper.gae_lambda))

    def update_on(self, descent: Descent, batch: Any, rate: Tensor, target: Tensor) -> Descent:
        """The update on a batch of the closed division; there is no target network."""
        obs, *rest = (tf.cast(array, self.dtype) for array in batch)
        return self.step(descent, tf.concat([tf.transpose(obs), tf.stack(rest)], 0), rate)

    def step(self, descent: Descent, batch: Tensor, rate: Tensor) -> Descent:
        weights, size = self.net.named(descent.flat), batch.shape[1]
        gradient = summed_in_chunks(lambda part: self.gradient(weights, part, size), batch, self.chunk)
        return descend(self.net, descent, gradient, rate)

    def gradient(self, weights: Any, batch: Tensor, size: int) -> Tensor:
        """What these rows add to the gradient of a minibatch of `size` rows."""
        components = self.task.components
        x = with_ones(batch[:components])
        (logits, value), tape = forward(self.net, weights, x)
        gradients = self.head_gradients(logits, value[0], tf.unstack(batch[components:]), size)
        return backward(self.net, weights, x, tape, gradients)

    def head_gradients(self, logits: Tensor, value: Tensor, rest: List[Tensor], size: int) -> List[Tensor]:
        """∂loss/∂outputs of policy and value."""
        raise NotImplementedError


class Policy(NamedTuple):
    """[actions, rows]."""

    log_p: Tensor
    p: Tensor
    taken: Tensor
    """True where the action is that of the row."""


def policy(logits: Tensor, action: Tensor) -> Policy:
    shifted = logits - tf.reduce_max(logits, 0)
    e = tf.exp(shifted)
    total = tf.reduce_sum(e, 0)
    actions = tf.range(logits.shape[0], dtype=logits.dtype)[:, None]
    return Policy(shifted - tf.math.log(total), e / total, action == actions)


def logit_gradients(hyper: Any, of: Policy, per_log_prob: Tensor) -> Tensor:
    """∂/∂logits of the policy's loss and −c_e · entropy, summed over rows."""
    g = per_log_prob * (tf.cast(of.taken, of.p.dtype) - of.p)
    if hyper.entropy_coefficient:
        g = g + hyper.entropy_coefficient * of.p * (of.log_p - tf.reduce_sum(of.p * of.log_p, 0))
    return g


def decayed_sums(delta: Tensor, decay: Tensor) -> Tensor:
    """S_t = delta_t + decay_t · S_{t+1} over the first axis, in log₂ time passes of whole tensors."""
    time, reach = delta.shape[0], 1
    while reach < time:
        later, further = (tf.pad(tensor[reach:], ((0, reach), (0, 0))) for tensor in (delta, decay))
        delta, decay = delta + decay * later, decay * further
        reach *= 2
    return delta


def normalised(advantage: Tensor) -> Tensor:
    """As `parts.advantage.normalise`."""
    centred = advantage - tf.reduce_mean(advantage)
    return centred / (tf.sqrt(tf.reduce_mean(centred * centred)) + 1e-8)


def in_chunks(function: Any, x: Tensor, chunk: int) -> Tensor:
    """`function` of columns, joined; chunk by chunk where there are several."""
    columns = x.shape[1]
    if columns <= 2 * chunk or columns % chunk:
        return function(x)
    parts = tf.transpose(tf.reshape(x, (x.shape[0], -1, chunk)), (1, 0, 2))
    done = scan(lambda carry, part: (carry, function(part[0])), tf.constant(0), [parts], (x.dtype, (chunk,)))
    return tf.reshape(done[1], (-1,))


def summed_in_chunks(function: Any, x: Tensor, chunk: int) -> Tensor:
    """Σ `function` of the chunks of columns."""
    columns = x.shape[1]
    if columns <= chunk or columns % chunk:
        return function(x)
    parts = tf.transpose(tf.reshape(x, (x.shape[0], -1, chunk)), (1, 0, 2))
    return repeat(lambda total, part: total + function(part[0]), function(parts[0]), [parts[1:]])
