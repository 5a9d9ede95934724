"""DQN in PyTorch: some steps and the update that follows them are one program, the memory is a tensor.

When an update is due depends on the number of steps alone, so Python knows it without asking the device.
"""

from __future__ import annotations

import functools
from typing import Dict, List, NamedTuple, Sequence, Tuple

import numpy as np
import torch
from torch import Tensor

from rldyno_rig.algorithms.replayed import first_update
from rldyno_rig.backends.torch_compiled import Program
from rldyno_rig.open.problem import ROUND_STEPS, Problem, n_step_tables
from rldyno_rig.open.torch_loop import Drawn, Plan, TorchLoop, place
from rldyno_rig.open.torch_net import Descent, Weights
from rldyno_rig.open.windows import CUT_OFF, GOES_ON, TERMINATED, ring_of, size_of, stored, window
from rldyno_rig.spec import Params


class Held(NamedTuple):
    """What a program changes, beside the weights."""

    target: Tensor
    memory: Tensor
    """[time · environments, observation + what followed it + action, how the step ended], a ring of steps."""
    waits: Tensor
    """Steps that waited after each row of the memory, as `windows` counts them."""
    at: Tensor
    """Steps of each environment that are in the memory or were."""
    added: Tensor
    waiting: Tensor
    """As `windows` counts transitions, and steps that wait."""
    until_sync: Tensor
    step: Tensor
    """Environment steps taken."""
    state: Tensor
    """[components, environments]."""
    length: Tensor
    """Steps of the episodes under way."""
    counts: Tensor
    """Episodes that ended, and their steps."""


class Draws(NamedTuple):
    """The random numbers of some steps."""

    explore: Tensor
    """[time, environments], 0 to 1: an action is greedy where ε is not above it."""
    random: Tensor
    """[time, environments]: the other actions."""
    resets: Tensor
    """[time, components, environments]: the first state of the episode after one that ends there."""
    sample: Tensor
    """[time, updates, batch], 0 to 1: where in the memory the rows of an update are."""


class TorchDqn(TorchLoop):
    def __init__(self, problem: Problem, weights: Params, first: np.ndarray) -> None:
        super().__init__(problem, weights, first)
        hyper, count = self.hyper, self.count
        self.round_steps = ROUND_STEPS * count
        self.ring = ring_of(hyper)
        self.held = Held(
            target=self.descent.flat.clone(),
            memory=torch.zeros(self.ring.rows, 2 * self.task.components + 2, **self.kind),
            waits=torch.zeros(self.ring.waits, dtype=torch.int64, device=self.device),
            at=self.number(0),
            added=self.number(0),
            waiting=self.number(0),
            until_sync=self.number(hyper.target_sync),
            step=self.number(0),
            state=self.tensor(first),
            length=torch.zeros(count, **self.kind),
            counts=self.counts,
        )
        self.returns, self.discounts = map(self.tensor, n_step_tables(problem))
        self.environments = torch.arange(count, device=self.device)
        self.until_train = first_update(hyper, count)
        self.usual = self.at_once(max(1, hyper.train_every // count))
        if self.usual > self.ring.steps:
            self.usual = 1
        self.programs: Dict[Tuple[int, bool], Program] = {}

    def run(self, rounds: int) -> None:
        # Before the first round: the first update comes later, in the middle of a measurement.
        for learns in (False, True)[: 1 + self.learns]:
            self.program(self.usual, learns)
        super().run(rounds)

    def plan(self) -> Plan:
        """(steps, whether an update follows) of each call of the next round."""
        calls: List[Tuple[int, bool]] = []
        left = ROUND_STEPS
        while left:
            wait = max(1, -(-self.until_train // self.count)) if self.learns else ROUND_STEPS + 1
            steps = self.usual if self.usual <= min(wait, left) else 1
            due = steps == wait
            self.until_train += (self.hyper.train_every if due else 0) - steps * self.count
            calls.append((steps, due))
            left -= steps
        return tuple(calls)

    def draw(self) -> Drawn:
        hyper, shape = self.hyper, (ROUND_STEPS, self.count)
        return {
            "explore": torch.rand(shape, **self.kind),
            "random": torch.rand(shape, **self.kind).mul_(self.task.actions).floor_(),
            "resets": self.first_of(ROUND_STEPS),
            "sample": torch.rand(ROUND_STEPS, hyper.updates_per_train, hyper.batch_size, **self.kind),
        }

    def round(self, drawn: Drawn, plan: Plan) -> Tensor:
        sizes = [steps for steps, _ in plan]
        parts = zip(*(drawn[name].split(sizes) for name in Draws._fields))
        held = (*self.descent, *self.held)
        return torch.cat([self.program(*call)([*held, *given])[0] for call, given in zip(plan, parts)])

    def program(self, steps: int, learns: bool) -> Program:
        """[descent, held, draws] → [actions], in place."""
        if (steps, learns) not in self.programs:
            shapes = [(self.count,), (self.count,), (self.task.components, self.count)]
            shapes.append((self.hyper.updates_per_train, self.hyper.batch_size))
            draws = [torch.zeros(steps, *shape, **self.kind) for shape in shapes]
            function = functools.partial(self._some, learns)
            self.programs[steps, learns] = self.compiled(function, [*self.descent, *self.held, *draws])
        return self.programs[steps, learns]

    def _some(self, learns: bool, *tensors: Tensor) -> Tuple[Tensor]:
        """Some steps, then the updates if they are due."""
        held_at, draws_at = len(Descent._fields), len(Descent._fields) + len(Held._fields)
        descent, held = Descent(*tensors[:held_at]), Held(*tensors[held_at:draws_at])
        draws = Draws(*tensors[draws_at:])
        after, rows, waits, synced = self.steps(descent.flat, held, draws)
        time = torch.arange(len(rows), device=self.device)
        places = ((held.at + time) % self.ring.steps)[:, None] * self.count + self.environments
        held.memory.index_put_((places.reshape(-1),), torch.cat(rows))
        if self.ring.waits:
            held.waits.index_put_((places.reshape(-1),), torch.cat(waits))
        # No weights change before the last step: one copy stands for all that were due until then.
        for one in synced[:-1]:
            after = after._replace(target=torch.where(one, descent.flat, after.target))
        new = self.learn(descent, after, draws.sample[-1]) if learns else descent
        place(descent, new)
        after = after._replace(target=torch.where(synced[-1], new.flat, after.target))
        place((held.target, *held[3:]), (after.target, *after[3:]))
        return (torch.stack([row[:, -2] for row in rows]),)

    def steps(
        self, flat: Tensor, held: Held, draws: Draws
    ) -> Tuple[Held, List[Tensor], List[Tensor], List[Tensor]]:
        """(what is held after them, of each: its rows, what waits after them, whether the target is due)."""
        hyper, weights = self.hyper, self.net.views(flat)
        _, _, _, at, added, waiting, until_sync, step, state, length, counts = held
        rows, waits, synced = [], [], []
        for explore, random, reset in zip(*draws[:3]):
            action = self.choose(weights, state, step, explore, random) if self.acts else random
            moved, length, terminated, late = self.advance(state, action, length)
            ended = terminated | late
            how = torch.where(terminated, TERMINATED, torch.where(late, CUT_OFF, GOES_ON)).to(self.dtype)
            rows.append(torch.cat((self.observe(state), self.observe(moved), action[None], how[None])).T)
            at, step, until_sync = at + 1, step + self.count, until_sync - self.count
            lasted = length.to(torch.int64)
            added, waiting, after = stored(torch, self.ring, added, waiting, ended, lasted)
            waits.append(after)
            synced.append(until_sync <= 0)
            until_sync = until_sync + synced[-1] * hyper.target_sync
            counts = counts + torch.stack((ended.sum(), (length * ended).sum().to(torch.int64)))
            state, length = torch.where(ended, reset, moved), torch.where(ended, 0, length)
        numbers = at, added, waiting, until_sync, step, state, length, counts
        return Held(held.target, held.memory, held.waits, *numbers), rows, waits, synced

    def choose(
        self, weights: Weights, state: Tensor, step: Tensor, explore: Tensor, random: Tensor
    ) -> Tensor:
        hyper = self.hyper
        share = torch.clamp(step.to(self.dtype) / max(1, hyper.epsilon_steps), max=1)
        epsilon = hyper.epsilon_start + (hyper.epsilon_end - hyper.epsilon_start) * share
        q = self.net.forward(weights, "q", self.observe(state).T)[-1]
        return torch.where(explore >= epsilon, q.argmax(1).to(self.dtype), random)

    def learn(self, descent: Descent, held: Held, sample: Tensor) -> Descent:
        hyper = self.hyper
        passed = torch.clamp(held.step.to(self.dtype) / hyper.schedule_steps, max=1)
        rate = hyper.learning_rate + (hyper.learning_rate_end - hyper.learning_rate) * passed
        for numbers in sample:
            descent = self.update_on(descent, self.batch(held, numbers), rate, held.target)
        return descent

    def batch(self, held: Held, numbers: Tensor) -> List[Tensor]:
        """obs, action, return, discount, next_obs of the transitions at these places of the memory."""
        components, memory = self.task.components, held.memory
        size = size_of(torch, self.ring, held.added)
        chosen = (numbers * size.to(self.dtype)).to(torch.int64)
        first_row, last_row, steps = window(
            torch,
            self.ring,
            (held.at, held.added, held.waiting),
            chosen,
            held.waits.__getitem__,
            lambda row: memory[row, -1] == GOES_ON,
        )
        taken = memory[first_row]
        last = taken if last_row is first_row else memory[last_row]
        discount = torch.where(last[:, -1] != TERMINATED, self.discounts[steps], 0)
        obs, next_obs = taken[:, :components], last[:, components : 2 * components]
        return [obs, taken[:, 2 * components], self.returns[steps], discount, next_obs]

    def update_on(self, descent: Descent, batch: Sequence[Tensor], rate: Tensor, target: Tensor) -> Descent:
        """As `reference.losses.dqn`."""
        obs, action, reward, discount, next_obs = batch
        net, hyper, size = self.net, self.hyper, len(batch[0])
        weights = net.views(descent.flat)
        q_next = net.forward(net.views(target), "q", next_obs)[-1]
        chooser, tape = q_next, net.forward(weights, "q", torch.cat((obs, next_obs)) if hyper.double else obs)
        if hyper.double:
            # One pass for both: more rows, fewer calls.
            chooser, tape = tape[-1][size:], [layer[:size] for layer in tape]
        goal = reward + discount * q_next.gather(1, chooser.argmax(1, keepdim=True))[:, 0]
        taken = self.taken(action)
        off = (tape[-1] * taken).sum(1) - goal
        g = torch.clamp(off, -hyper.huber_delta, hyper.huber_delta)[:, None] * taken / size
        return net.descend(descent, net.backward(weights, "q", tape[:-1], g), rate)
