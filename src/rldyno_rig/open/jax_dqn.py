"""DQN as one program in JAX: environments, replay memory and updates inside one loop."""

from __future__ import annotations

from typing import Any, List, Mapping, NamedTuple, Tuple

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from rldyno_rig.algorithms.replayed import first_update
from rldyno_rig.open.jax_net import Descent, Net, act_outputs, backward, descend, forward, with_ones
from rldyno_rig.open.jax_random import draw_bits, uniform
from rldyno_rig.open.problem import ACTING, LEARNING, ROUND_STEPS, Problem, n_step_tables
from rldyno_rig.open.windows import CUT_OFF, GOES_ON, TERMINATED, ring_of, size_of, stored, window

Batch = Tuple[Array, ...]

LONG_AGO = -(1 << 30)
"""Counters that have nothing to wait for stay above this."""


class Draws(NamedTuple):
    """The random numbers of one round."""

    explore: Array
    """[time, environments], 0 to 1: an action is greedy where ε is not above it."""
    random: Array
    """[time, environments]: the other actions."""
    resets: Array
    """[time, components, environments]: the first state of the episode after one that ends there."""
    sample: Array
    """[time, updates, batch], 0 to 1: where in the memory the rows of an update are."""


class Carry(NamedTuple):
    descent: Descent
    target: Array
    memory: Array
    """[time · environments, observation + what followed it + action, how the step ended], a ring of steps."""
    at: Array
    """Steps of each environment that are in the memory or were."""
    added: Array
    waiting: Array
    waits: Array
    """As `windows` counts transitions, steps that wait, and steps that waited after each row."""
    until_train: Array
    until_sync: Array
    state: Array
    """[components, environments]."""
    length: Array
    """Steps of the episodes under way."""
    step: Array
    """Environment steps taken, up to the end of every schedule."""
    episodes: Array
    episode_steps: Array


class Dqn:
    def __init__(self, problem: Problem) -> None:
        self.task, self.hyper = problem.task, problem.hyper
        self.dtype = np.dtype(problem.dtype)
        self.net = Net(problem.spec, problem.dtype, problem.device)
        self.acts, self.learns = ACTING in problem.parts, LEARNING in problem.parts
        hyper = self.hyper
        self.count = hyper.environments
        self.rows = ROUND_STEPS * self.count
        self.ring = ring_of(hyper)
        self.last_step = max(hyper.schedule_steps, hyper.epsilon_steps)
        returns, discounts = n_step_tables(problem)
        self.returns, self.discounts = returns.astype(self.dtype), discounts.astype(self.dtype)

    def start(self, params: Any, state: np.ndarray) -> Carry:
        hyper, descent = self.hyper, self.net.start(params)
        memory = jnp.zeros((self.ring.rows, 2 * self.task.components + 2), self.dtype)
        numbers = dict(
            until_train=first_update(hyper, self.count),
            until_sync=hyper.target_sync,
            **dict.fromkeys(("at", "added", "waiting", "step", "episodes", "episode_steps"), 0),
        )
        return Carry(
            descent=descent,
            target=jnp.copy(descent.flat),
            memory=memory,
            waits=jnp.zeros(self.ring.waits, np.int32),
            state=jnp.asarray(state.astype(self.dtype)),
            length=jnp.zeros(self.count, np.int32),
            **{name: jnp.array(value, np.int32) for name, value in numbers.items()},
        )

    def draw(self, key: Array) -> Tuple[Array, Draws]:
        hyper, task, count = self.hyper, self.task, self.count
        shapes = [
            (ROUND_STEPS, count),
            (ROUND_STEPS, count),
            (ROUND_STEPS, task.components, count),
            (ROUND_STEPS, hyper.updates_per_train, hyper.batch_size),
        ]
        sizes = [int(np.prod(shape)) for shape in shapes]
        key, bits = draw_bits(key, sum(sizes))
        parts = [part.reshape(shape) for part, shape in zip(lax.split(bits, sizes), shapes)]
        explore, random, resets, sample = (uniform(part, self.dtype) for part in parts)
        low, high = (np.array(edge, self.dtype)[:, None] for edge in (task.low, task.high))
        actions = (random * task.actions).astype(np.int32)
        return key, Draws(explore, actions, resets * (high - low) + low, sample)

    def given(self, drawn: Mapping[str, np.ndarray]) -> Draws:
        """Recorded numbers as those of a round."""
        explore, resets, sample = (
            jnp.asarray(drawn[name].astype(self.dtype)) for name in ("explore", "resets", "sample")
        )
        return Draws(explore, jnp.asarray(drawn["random"].astype(np.int32)), resets, sample)

    def observe(self, state: Array) -> Array:
        """Observations are float32 in every precision."""
        return state.astype(np.float32).astype(self.dtype)

    def round(self, carry: Carry, draws: Draws) -> Tuple[Carry, Array]:
        """ROUND_STEPS steps with their updates; also the actions, [time, environments]."""
        return lax.scan(self.step, carry, draws)

    def step(self, carry: Carry, draws: Draws) -> Tuple[Carry, Array]:
        action = self.choose(carry, draws)
        carry = self.advance(carry, action, draws.resets)
        if not self.learns:
            return carry, action
        due = carry.until_train <= 0
        # Read outside of the condition: inside, XLA copies the memory in every step.
        batches = [self.batch(carry, numbers) for numbers in draws.sample]
        descent = lax.cond(due, lambda: self.learn(carry, batches), lambda: carry.descent)
        sync = carry.until_sync <= 0
        hyper = self.hyper
        return carry._replace(
            descent=descent,
            target=jnp.where(sync, descent.flat, carry.target),
            until_train=waiting(carry.until_train, due, hyper.train_every),
            until_sync=waiting(carry.until_sync, sync, hyper.target_sync),
        ), action

    def choose(self, carry: Carry, draws: Draws) -> Array:
        if not self.acts:
            return draws.random
        hyper = self.hyper
        share = jnp.minimum(1, carry.step.astype(self.dtype) / max(1, hyper.epsilon_steps))
        epsilon = hyper.epsilon_start + (hyper.epsilon_end - hyper.epsilon_start) * share
        weights = self.net.named(carry.descent.flat)
        q = act_outputs(self.net, weights, list(self.observe(carry.state)), "q")
        return jnp.where(draws.explore >= epsilon, lax.argmax(q, 1, np.int32), draws.random)

    def advance(self, carry: Carry, action: Array, reset: Array) -> Carry:
        """One step of the environments, into the memory."""
        number = action.astype(self.dtype)
        moved, terminated = self.task.advance(jnp, tuple(carry.state), number)
        after = jnp.stack(moved)
        length = carry.length + np.int32(1)
        late = length >= self.task.limit
        ended = terminated | late
        how = jnp.where(terminated, TERMINATED, jnp.where(late, CUT_OFF, GOES_ON)).astype(self.dtype)
        rows = jnp.concatenate([self.observe(carry.state), self.observe(after), number[None], how[None]]).T
        place = (carry.at % np.int32(self.ring.steps)) * np.int32(self.count)
        added, waiting, waits = stored(jnp, self.ring, carry.added, carry.waiting, ended, length)
        if self.ring.waits:
            waits = lax.dynamic_update_slice(carry.waits, waits, (place,))
        return carry._replace(
            memory=lax.dynamic_update_slice(carry.memory, rows, (place, np.int32(0))),
            at=carry.at + np.int32(1),
            added=added,
            waiting=waiting,
            waits=waits if self.ring.waits else carry.waits,
            until_train=carry.until_train - np.int32(self.count),
            until_sync=carry.until_sync - np.int32(self.count),
            state=jnp.where(ended, reset, after),
            length=jnp.where(ended, np.int32(0), length),
            step=jnp.minimum(carry.step + np.int32(self.count), np.int32(self.last_step)),
            episodes=carry.episodes + ended.sum(dtype=np.int32),
            episode_steps=carry.episode_steps + jnp.where(ended, length, np.int32(0)).sum(dtype=np.int32),
        )

    def learn(self, carry: Carry, batches: List[Batch]) -> Descent:
        hyper, descent = self.hyper, carry.descent
        change = hyper.learning_rate_end - hyper.learning_rate
        passed = jnp.minimum(1, carry.step.astype(self.dtype) / hyper.schedule_steps)
        rate = hyper.learning_rate + change * passed
        for batch in batches:
            descent = self.update(descent, carry.target, batch, rate)
        return descent

    def batch(self, carry: Carry, numbers: Array) -> Batch:
        """obs, action, return, discount, next_obs of the transitions at these places of the memory."""
        components, memory = self.task.components, carry.memory
        size = size_of(jnp, self.ring, carry.added)
        place = (numbers * size.astype(self.dtype)).astype(np.int32)
        first_row, last_row, length = window(
            jnp,
            self.ring,
            (carry.at, carry.added, carry.waiting),
            place,
            carry.waits.__getitem__,
            lambda row: memory[row][:, -1] == GOES_ON,
        )
        taken = memory[first_row]
        last = taken if last_row is first_row else memory[last_row]
        goes_on = last[:, -1] != TERMINATED
        discount = jnp.where(goes_on, jnp.asarray(self.discounts)[length], 0)
        obs, next_obs = taken[:, :components], last[:, components : 2 * components]
        return obs, taken[:, 2 * components], jnp.asarray(self.returns)[length], discount, next_obs

    def update(self, descent: Descent, target: Array, batch: Batch, rate: Array) -> Descent:
        """As `reference.losses.dqn`."""
        obs, action, reward, discount, next_obs = batch
        net, delta = self.net, self.hyper.huber_delta
        weights, fixed = net.named(descent.flat), net.named(target)
        after, x = with_ones(next_obs.T), with_ones(obs.T)
        (q_next,), _ = forward(net, fixed, after)
        chooser = forward(net, weights, after)[0][0] if self.hyper.double else q_next
        best = lax.argmax(chooser, 0, np.int32)
        goal = reward + discount * picked(q_next, best.astype(self.dtype))
        (q,), tape = forward(net, weights, x)
        slope = jnp.clip(picked(q, action) - goal, -delta, delta) / len(action)
        actions = np.arange(len(q), dtype=self.dtype)[:, None]
        g = jnp.where(action == actions, slope, 0)
        return descend(net, descent, backward(net, weights, x, tape, [g]), rate)

    def update_on(self, descent: Descent, batch: Any, rate: Array, target: Array) -> Descent:
        """The update on a batch of the closed division."""
        return self.update(descent, target, tuple(array.astype(self.dtype) for array in batch), rate)


def waiting(until: Array, due: Array, every: int) -> Array:
    """Steps until the next time, once more after one that was due."""
    return jnp.maximum(jnp.where(due, until + np.int32(every), until), np.int32(LONG_AGO))


def picked(q: Array, action: Array) -> Array:
    """q `[actions, rows]` of these actions."""
    return jnp.where(action == np.arange(len(q), dtype=q.dtype)[:, None], q, 0).sum(0)
