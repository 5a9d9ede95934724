"""PPO in PyTorch: programs for some steps, for the last of them and the advantages, and for one update."""

from __future__ import annotations

from functools import cached_property
from typing import List, Sequence, Tuple

import torch
from torch import Tensor

from rldyno_rig.backends.torch_compiled import Program
from rldyno_rig.open.torch_loop import Drawn, place
from rldyno_rig.open.torch_net import Descent
from rldyno_rig.open.torch_rollout import Rows, TorchRollouts, normalised


class TorchPpo(TorchRollouts):
    @cached_property
    def updating(self) -> Program:
        rows = torch.zeros(self.round_steps, self.task.components + 5, **self.kind)
        chosen = torch.arange(self.round_steps // self.hyper.minibatches, device=self.device)
        return self.compiled(self._update, [*self.descent, rows, torch.zeros((), **self.kind), chosen])

    def draw(self) -> Drawn:
        # A sort of random numbers: `randperm` cannot be captured.
        order = torch.rand(self.hyper.epochs, self.round_steps, device=self.device).argsort(1)
        return {**super().draw(), "order": order}

    def learned(self, descent: Descent, rows: Rows, rate: Tensor) -> Tuple[Tensor, ...]:
        """The rows in one tensor, and the learning rate."""
        return torch.cat((rows.obs, torch.stack(rows[1:], 1)), 1), rate

    def learn(self, rest: Sequence[Tensor], drawn: Drawn) -> None:
        for chosen in drawn["order"].reshape(self.hyper.epochs * self.hyper.minibatches, -1):
            self.updating([*self.descent, *rest, chosen])

    def _update(self, *tensors: Tensor) -> Tuple[()]:
        """On a minibatch: [descent, rows, rate, numbers of the rows]."""
        *held, rows, rate, chosen = tensors
        descent, batch = Descent(*held), rows[chosen]
        obs, rest = batch[:, : self.task.components], batch[:, self.task.components :]
        action, log_prob, advantage, ret, value = rest.unbind(1)
        if self.hyper.normalise_advantage:
            advantage = normalised(advantage)
        given = (obs, action, log_prob, advantage, ret, value)
        place(descent, self.update_on(descent, given, rate, descent.flat))
        return ()

    def head_gradients(self, logits: Tensor, value: Tensor, rest: List[Tensor]) -> Tuple[Tensor, Tensor]:
        """As `reference.losses.ppo`."""
        clip_range = self.hyper.clip_range
        action, old_log_prob, advantage, ret, old_value = rest
        log_p, taken = torch.log_softmax(logits, 1), self.taken(action)
        ratio = torch.exp((taken * log_p).sum(1) - old_log_prob)
        plain = ratio * advantage
        clipped = torch.clamp(ratio, 1 - clip_range, 1 + clip_range) * advantage
        g = self.logit_gradients(log_p, taken, torch.where(plain <= clipped, -plain, 0))
        slopes = 2 * (value - ret)
        if self.hyper.value_clip:
            moved = value - old_value
            kept = old_value + torch.clamp(moved, -clip_range, clip_range) - ret
            inside = abs(moved) <= clip_range
            slopes = torch.where((value - ret) ** 2 >= kept**2, slopes, 2 * kept * inside)
        return g, slopes
