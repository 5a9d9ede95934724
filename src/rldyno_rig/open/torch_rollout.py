"""What PPO and A2C share in PyTorch: environments, acting, advantages, and one step down a policy's gradient.

A rollout is one program, or several where it is long; what follows it is in the last of them.
"""

from __future__ import annotations

from functools import cached_property
from typing import List, NamedTuple, Sequence, Tuple

import numpy as np
import torch
from torch import Tensor

from rldyno_rig.backends.torch_compiled import Program
from rldyno_rig.open.problem import Problem
from rldyno_rig.open.torch_loop import Drawn, Plan, TorchLoop, place
from rldyno_rig.open.torch_net import Descent, Weights
from rldyno_rig.spec import Params


class Held(NamedTuple):
    """What a program changes, beside the weights."""

    state: Tensor
    """[components, environments]."""
    length: Tensor
    """Steps of the episodes under way."""
    step: Tensor
    """Environment steps taken."""
    counts: Tensor
    """Episodes that ended, and their steps."""


class Rows(NamedTuple):
    """A rollout, [time · environments, …]."""

    obs: Tensor
    action: Tensor
    log_prob: Tensor
    advantage: Tensor
    ret: Tensor
    value: Tensor


class TorchRollouts(TorchLoop):
    """Rollouts of one policy; how it learns from them is the algorithm's part."""

    def __init__(self, problem: Problem, weights: Params, first: np.ndarray) -> None:
        super().__init__(problem, weights, first)
        self.time, self.round_steps = self.hyper.rollout_steps, self.count * self.hyper.rollout_steps
        lengths = torch.zeros(self.count, **self.kind)
        self.held = Held(self.tensor(first), lengths, self.number(0), self.counts)
        self.some = self.at_once(self.time)
        self.columns = self.task.components + self.task.actions + 3

    @cached_property
    def collecting(self) -> Program:
        return self.compiled(self._collect, [self.descent.flat, *self.held, *self._drawn()])

    @cached_property
    def finishing(self) -> Program:
        earlier = torch.zeros(self.time - self.some, self.columns, self.count, **self.kind)
        return self.compiled(self._finish, [*self.descent, *self.held, earlier, *self._drawn()])

    def _drawn(self) -> List[Tensor]:
        """In the shapes of the random numbers of one program."""
        rows = self.task.actions, self.task.components
        return [torch.zeros(self.some, size, self.count, **self.kind) for size in rows]

    def draw(self) -> Drawn:
        noise = torch.rand(self.time, self.task.actions, self.count, **self.kind)
        noise.clamp_(min=torch.finfo(self.dtype).tiny)
        return {"noise": -torch.log(-torch.log(noise)), "resets": self.first_of(self.time)}

    def round(self, drawn: Drawn, plan: Plan) -> Tensor:
        *parts, last = zip(drawn["noise"].split(self.some), drawn["resets"].split(self.some))
        seen = [self.collecting([self.descent.flat, *self.held, *part])[0] for part in parts]
        earlier = torch.cat(seen) if seen else torch.zeros(0, self.columns, self.count, **self.kind)
        actions, *rest = self.finishing([*self.descent, *self.held, earlier, *last])
        if self.learns:
            self.learn(rest, drawn)
        return actions

    def _collect(self, *tensors: Tensor) -> Tuple[Tensor]:
        """Some steps: [flat, held, noise, resets] → what was seen of them."""
        held = Held(*tensors[1:-2])
        after, seen = self.steps(tensors[0], held, *tensors[-2:])
        place(held[:2], after[:2])
        return (seen,)

    def _finish(self, *tensors: Tensor) -> Tuple[Tensor, ...]:
        """The last steps and what follows: [descent, held, seen before, noise, resets] → actions and more."""
        at = len(Descent._fields)
        descent, held, (earlier, noise, resets) = Descent(*tensors[:at]), Held(*tensors[at:-3]), tensors[-3:]
        after, seen = self.steps(descent.flat, held, noise, resets)
        if len(earlier):
            seen = torch.cat((earlier, seen))
        action, terminated, length = seen[:, -3], seen[:, -2] > 0, seen[:, -1]
        ended = terminated | (length >= self.task.limit)
        counted = torch.stack((ended.sum(), (length * ended).sum().to(torch.int64)))
        more: Tuple[Tensor, ...] = ()
        if self.learns:
            passed = torch.clamp(held.step.to(self.dtype) / self.hyper.schedule_steps, max=1)
            change = self.hyper.learning_rate_end - self.hyper.learning_rate
            rows = self.rollout_rows(descent.flat, seen, after.state)
            more = self.learned(descent, rows, self.hyper.learning_rate + change * passed)
        place(held, after._replace(step=held.step + self.round_steps, counts=held.counts + counted))
        return (action, *more)

    def learned(self, descent: Descent, rows: Rows, rate: Tensor) -> Tuple[Tensor, ...]:
        """What the last program of a rollout makes of it, in place; what it returns is given to `learn`."""
        raise NotImplementedError

    def learn(self, rest: Sequence[Tensor], drawn: Drawn) -> None:
        """What follows the last program."""

    def steps(self, flat: Tensor, held: Held, noise: Tensor, resets: Tensor) -> Tuple[Held, Tensor]:
        """Steps; [time, state + logits + action, terminated, length, environments] of them."""
        weights, kept = self.net.views(flat), []
        state, length = held.state, held.length
        for extra, reset in zip(noise, resets):
            logits = torch.zeros_like(extra)
            if self.acts:
                logits = self.net.forward(weights, "policy", self.observe(state).T)[-1].T
            action = (logits + extra).argmax(0).to(self.dtype)
            moved, length, terminated, late = self.advance(state, action, length)
            ended = terminated | late
            kept.append(torch.cat((state, logits, torch.stack((action, terminated.to(self.dtype), length)))))
            state, length = torch.where(ended, reset, moved), torch.where(ended, 0, length)
        return held._replace(state=state, length=length), torch.stack(kept)

    def rollout_rows(self, flat: Tensor, seen: Tensor, last: Tensor) -> Rows:
        """`last` are the states after it."""
        weights, components = self.net.views(flat), self.task.components
        time, _, count = seen.shape
        state, logits, action = seen[:, :components], seen[:, components:-3], seen[:, -3]
        terminated, late = seen[:, -2] > 0, seen[:, -1] >= self.task.limit
        ended, cut_off = terminated | late, late & ~terminated
        # A time limit cuts an environment off once in a rollout at most, so one row for each is enough.
        before, chosen = (state * cut_off[:, None]).sum(0), (action * cut_off).sum(0)
        final = torch.stack(self.task.advance(torch, tuple(before), chosen)[0])
        obs = self.observe(state).transpose(1, 2).reshape(time * count, -1)
        ends = self.observe(torch.cat((last, final), 1)).T
        value = self.net.forward(weights, "value", torch.cat((obs, ends)))[-1][:, 0]
        value, after, bootstrap = value.split((time * count, count, count))
        value = value.reshape(time, count)
        following = torch.cat((value[1:], after[None]))
        following = torch.where(ended, torch.where(cut_off, bootstrap, 0), following)
        decay = torch.where(ended, 0.0, self.hyper.gamma * self.hyper.gae_lambda).to(self.dtype)
        advantage = decayed_sums(self.task.reward + self.hyper.gamma * following - value, decay)
        taken = action[:, None] == self.actions[:, None]
        log_prob = torch.where(taken, torch.log_softmax(logits, 1), 0).sum(1)
        rest = (action, log_prob, advantage, advantage + value, value)
        return Rows(obs, *(tensor.reshape(-1) for tensor in rest))

    def update_on(self, descent: Descent, batch: Sequence[Tensor], rate: Tensor, target: Tensor) -> Descent:
        """There is no target network."""
        obs, *rest = batch
        net, weights = self.net, self.net.views(descent.flat)
        actor, critic = (net.forward(weights, head, obs) for head in ("policy", "value"))
        g_policy, g_value = self.head_gradients(actor[-1], critic[-1][:, 0], rest)
        found: Weights = net.backward(weights, "policy", actor[:-1], g_policy / len(obs))
        slopes = self.hyper.value_coefficient * g_value[:, None] / len(obs)
        found.update(net.backward(weights, "value", critic[:-1], slopes))
        return net.descend(descent, found, rate)

    def head_gradients(self, logits: Tensor, value: Tensor, rest: List[Tensor]) -> Tuple[Tensor, Tensor]:
        """∂loss/∂outputs of policy and value, of each row; the value's without its coefficient."""
        raise NotImplementedError

    def logit_gradients(self, log_p: Tensor, taken: Tensor, per_log_prob: Tensor) -> Tensor:
        """∂/∂logits of the policy's loss and −c_e · entropy."""
        p = torch.exp(log_p)
        g = per_log_prob[:, None] * (taken - p)
        if self.hyper.entropy_coefficient:
            g = g + self.hyper.entropy_coefficient * p * (log_p - (p * log_p).sum(1, keepdim=True))
        return g


def decayed_sums(delta: Tensor, decay: Tensor) -> Tensor:
    """S_t = delta_t + decay_t · S_{t+1} over the first axis, in log₂ time passes of whole tensors."""
    time, reach = len(delta), 1
    while reach < time:
        later, further = (
            torch.cat((tensor[reach:], torch.zeros_like(tensor[:reach]))) for tensor in (delta, decay)
        )
        delta, decay = delta + decay * later, decay * further
        reach *= 2
    return delta


def normalised(advantage: Tensor) -> Tensor:
    """As `parts.advantage.normalise`."""
    centred = advantage - advantage.mean()
    return centred / (torch.sqrt((centred * centred).mean()) + 1e-8)
