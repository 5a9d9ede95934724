"""What PPO and A2C share in JAX: environments, acting, advantages, and one step down a policy's gradient."""

from __future__ import annotations

from typing import Any, List, Mapping, NamedTuple, Tuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from rldyno_rig.open.jax_net import Descent, Net, act_outputs, backward, descend, forward, with_ones
from rldyno_rig.open.jax_random import gumbel, uniform
from rldyno_rig.open.problem import ACTING, LEARNING, Problem

CHUNK_ROWS = 1024
"""Rows that one pass through the network takes on a CPU, so that its activations stay in the core's cache."""


class Carry(NamedTuple):
    descent: Descent
    state: Array
    """[components, environments]."""
    length: Array
    """Steps of the episodes under way."""
    step: Array
    """Environment steps taken, up to the end of the schedule of the learning rate."""
    episodes: Array
    episode_steps: Array


class Seen(NamedTuple):
    """What a rollout keeps of each step, [time, …, environments]."""

    state: Array
    logits: Array
    action: Array
    terminated: Array
    length: Array
    """Of the episode, this step included."""


class Rollouts:
    """Rollouts of one policy; how it learns from them is the algorithm's part."""

    def __init__(self, problem: Problem) -> None:
        self.task, self.hyper = problem.task, problem.hyper
        self.dtype = np.dtype(problem.dtype)
        self.net = Net(problem.spec, problem.dtype, problem.device)
        self.rows = self.hyper.environments * self.hyper.rollout_steps
        self.chunk = CHUNK_ROWS if problem.device == "cpu" else self.rows
        self.unroll = 1 if problem.device == "cpu" else 8
        self.acts, self.learns = ACTING in problem.parts, LEARNING in problem.parts

    def start(self, params: Any, state: np.ndarray) -> Carry:
        lengths = jnp.zeros(self.hyper.environments, np.int32)
        counts = (jnp.zeros((), np.int32) for _ in range(3))
        return Carry(self.net.start(params), jnp.asarray(state.astype(self.dtype)), lengths, *counts)

    def sizes(self) -> List[int]:
        """Random numbers of 32 bits that the steps of a round take: for the noise, and for first states."""
        steps = self.rows
        return [steps * self.task.actions, steps * self.task.components]

    def drawn(self, noise: Array, resets: Array) -> Tuple[Array, Array]:
        """Bits → noise of the actions, and first states."""
        task, time, count = self.task, self.hyper.rollout_steps, self.hyper.environments
        low, high = (np.array(edge, self.dtype)[:, None] for edge in (task.low, task.high))
        first = uniform(resets.reshape(time, task.components, count), self.dtype) * (high - low) + low
        return gumbel(noise.reshape(time, task.actions, count), self.dtype), first

    def given_steps(self, drawn: Mapping[str, np.ndarray]) -> Tuple[Array, Array]:
        """Recorded numbers as those of a round."""
        noise, resets = (jnp.asarray(drawn[name].astype(self.dtype)) for name in ("noise", "resets"))
        return noise, resets

    def observe(self, state: Array) -> Array:
        """Observations are float32 in every precision."""
        return state.astype(np.float32).astype(self.dtype)

    def rate(self, carry: Carry) -> Array:
        hyper = self.hyper
        return hyper.learning_rate + (hyper.learning_rate_end - hyper.learning_rate) * (
            carry.step.astype(self.dtype) / hyper.schedule_steps
        )

    def learned(self, carry: Carry, seen: Seen, descent: Descent) -> Carry:
        """After a round: its steps and episodes are counted."""
        ended = seen.terminated | (seen.length >= self.task.limit)
        return carry._replace(
            descent=descent,
            step=jnp.minimum(carry.step + np.int32(self.rows), np.int32(self.hyper.schedule_steps)),
            episodes=carry.episodes + ended.sum(dtype=np.int32),
            episode_steps=carry.episode_steps + jnp.where(ended, seen.length, 0).sum(dtype=np.int32),
        )

    def collect(self, carry: Carry, noise: Array, resets: Array) -> Tuple[Carry, Seen]:
        weights = self.net.named(carry.descent.flat)

        def step(given: Tuple[Array, Array], drawn: Tuple[Array, Array]) -> Tuple[Any, Seen]:
            state, length = given
            extra, reset = drawn
            logits = (
                act_outputs(self.net, weights, list(self.observe(state)), "policy")
                if self.acts
                else jnp.zeros((state.shape[1], self.task.actions), self.dtype)
            )
            action = chosen(list(logits.T), list(extra)).astype(self.dtype)
            moved, terminated = self.task.advance(jnp, tuple(state), action)
            length = length + np.int32(1)
            ended = terminated | (length >= self.task.limit)
            after = jnp.where(ended, reset, jnp.stack(moved))
            # One array: on a CPU each array that is kept costs a kernel.
            rest = (action[None], terminated[None].astype(self.dtype), length[None].astype(self.dtype))
            seen = jnp.concatenate([state, logits.T, *rest])
            return (after, jnp.where(ended, np.int32(0), length)), seen

        (state, length), seen = lax.scan(
            step, (carry.state, carry.length), (noise, resets), unroll=self.unroll
        )
        at = self.task.components, self.task.components + self.task.actions
        action, terminated, lengths = (seen[:, at[1] + i] for i in range(3))
        kept = Seen(
            seen[:, : at[0]], seen[:, at[0] : at[1]], action, terminated > 0, lengths.astype(np.int32)
        )
        return carry._replace(state=state, length=length), kept

    def rollout_rows(self, carry: Carry, seen: Seen) -> Array:
        """[time · environments, observation + action, log-probability, advantage, return, value]."""
        time, components, count = seen.state.shape
        weights = self.net.named(carry.descent.flat)
        states = seen.state.transpose(1, 0, 2).reshape(components, -1)
        value = in_chunks(
            lambda x: forward(self.net, weights, x, ("critic",))[0][0][0],
            with_ones(self.observe(states)),
            self.chunk,
        ).reshape(time, count)
        advantage = self.advantages(weights, seen, value, carry.state)
        log_p = jax.nn.log_softmax(seen.logits, 1)
        actions = np.arange(self.task.actions, dtype=self.dtype)[:, None]
        log_prob = jnp.where(seen.action[:, None] == actions, log_p, 0).sum(1)
        rest = jnp.stack((seen.action, log_prob, advantage, advantage + value, value), 1)
        rows = jnp.concatenate([self.observe(seen.state), rest], 1)
        return rows.transpose(0, 2, 1).reshape(self.rows, -1)

    def advantages(self, weights: Any, seen: Seen, value: Array, last: Array) -> Array:
        """Generalised advantage estimation, as `parts.advantage.gae`; `last` are the states after it."""
        hyper = self.hyper
        late = seen.length >= self.task.limit
        ended, cut_off = seen.terminated | late, late & ~seen.terminated
        # A time limit cuts an environment off once in a rollout at most, so one row for each is enough.
        before, action = (
            jnp.where(mask, array, 0).sum(0)
            for mask, array in ((cut_off[:, None], seen.state), (cut_off, seen.action))
        )
        final = jnp.stack(self.task.advance(jnp, tuple(before), action)[0])
        rows = list(self.observe(jnp.concatenate([last, final], 1)))
        after, bootstrap = jnp.split(act_outputs(self.net, weights, rows, "value")[:, 0], 2)
        following = jnp.concatenate([value[1:], after[None]])
        following = jnp.where(ended, jnp.where(cut_off, bootstrap, 0), following)
        delta = self.task.reward + hyper.gamma * following - value
        decay = jnp.where(ended, 0, self.dtype.type(hyper.gamma * hyper.gae_lambda))
        return decayed_sums(delta, decay)

    def step(self, descent: Descent, batch: Array, rate: Array) -> Descent:
        weights, size = self.net.named(descent.flat), batch.shape[1]
        gradient = summed_in_chunks(lambda part: self.gradient(weights, part, size), batch, self.chunk)
        return descend(self.net, descent, gradient, rate)

    def gradient(self, weights: Any, batch: Array, size: int) -> Array:
        """What these rows add to the gradient of a batch of `size` rows."""
        components = self.task.components
        x = with_ones(batch[:components])
        (logits, value), tape = forward(self.net, weights, x)
        gradients = self.head_gradients(logits, value[0], batch[components:], size)
        return backward(self.net, weights, x, tape, gradients)

    def head_gradients(self, logits: Array, value: Array, rest: Array, size: int) -> List[Array]:
        """∂loss/∂outputs of policy and value."""
        raise NotImplementedError

    def update_on(self, descent: Descent, batch: Any, rate: Array, target: Array) -> Descent:
        """The update on a batch of the closed division; there is no target network."""
        obs, *rest = batch
        columns = [obs.astype(self.dtype).T, *(array[None].astype(self.dtype) for array in rest)]
        return self.step(descent, jnp.concatenate(columns), rate)


class Policy(NamedTuple):
    """[actions, rows]."""

    log_p: Array
    p: Array
    taken: Array
    """True where the action is that of the row."""


def policy(logits: Array, action: Array) -> Policy:
    shifted = logits - logits.max(0)
    e = jnp.exp(shifted)
    total = e.sum(0)
    taken = action == np.arange(len(logits), dtype=logits.dtype)[:, None]
    return Policy(shifted - jnp.log(total), e / total, taken)


def logit_gradients(hyper: Any, of: Policy, per_log_prob: Array) -> Array:
    """∂/∂logits of the policy's loss and −c_e · entropy, summed over rows."""
    g = per_log_prob * (of.taken.astype(of.p.dtype) - of.p)
    if hyper.entropy_coefficient:
        g = g + hyper.entropy_coefficient * of.p * (of.log_p - (of.p * of.log_p).sum(0))
    return g


def chosen(logits: List[Array], noise: List[Array]) -> Array:
    """argmax of logits + noise; the first of equal ones."""
    scores = [logit + extra for logit, extra in zip(logits, noise)]
    best, action = scores[0], jnp.zeros(scores[0].shape, np.int32)
    for a, score in enumerate(scores[1:], 1):
        action = jnp.where(score > best, np.int32(a), action)
        best = jnp.maximum(best, score)
    return action


def decayed_sums(delta: Array, decay: Array) -> Array:
    """S_t = delta_t + decay_t · S_{t+1} over the first axis, in log₂ time passes of whole arrays."""
    time, reach = len(delta), 1
    while reach < time:
        rest = [(0, reach), *[(0, 0)] * (delta.ndim - 1)]
        later, further = (jnp.pad(array[reach:], rest) for array in (delta, decay))
        delta, decay = delta + decay * later, decay * further
        reach *= 2
    return delta


def normalised(advantage: Array) -> Array:
    """As `parts.advantage.normalise`."""
    centred = advantage - advantage.mean()
    return centred / (jnp.sqrt((centred * centred).mean()) + 1e-8)


def in_chunks(function: Any, x: Array, chunk: int) -> Array:
    """`function` of columns, joined; chunk by chunk where there are several."""
    columns = x.shape[1]
    if columns <= 2 * chunk:
        return function(x)
    count = columns // chunk
    whole = x[:, : count * chunk].reshape(len(x), count, chunk).transpose(1, 0, 2)
    done = lax.map(function, whole).reshape(-1)
    return jnp.concatenate([done, function(x[:, count * chunk :])]) if columns % chunk else done


def summed_in_chunks(function: Any, x: Array, chunk: int) -> Array:
    """Σ `function` of the chunks of columns."""
    columns = x.shape[1]
    if columns <= chunk or columns % chunk:
        return function(x)
    parts = x.reshape(len(x), -1, chunk).transpose(1, 0, 2)
    first, rest = function(parts[0]), parts[1:]
    return lax.scan(lambda total, part: (total + function(part), None), first, rest)[0]
