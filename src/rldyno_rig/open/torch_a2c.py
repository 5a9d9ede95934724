"""A2C in PyTorch: a short rollout and the update from it are one program."""

from __future__ import annotations

from typing import List, Tuple

import torch
from torch import Tensor

from rldyno_rig.open.torch_loop import place
from rldyno_rig.open.torch_net import Descent
from rldyno_rig.open.torch_rollout import Rows, TorchRollouts, normalised


class TorchA2c(TorchRollouts):
    def learned(self, descent: Descent, rows: Rows, rate: Tensor) -> Tuple[Tensor, ...]:
        advantage = normalised(rows.advantage) if self.hyper.normalise_advantage else rows.advantage
        batch = (rows.obs, rows.action, advantage, rows.ret)
        place(descent, self.update_on(descent, batch, rate, descent.flat))
        return ()

    def head_gradients(self, logits: Tensor, value: Tensor, rest: List[Tensor]) -> Tuple[Tensor, Tensor]:
        """As `reference.losses.a2c`."""
        action, advantage, ret = rest
        g = self.logit_gradients(torch.log_softmax(logits, 1), self.taken(action), -advantage)
        return g, 2 * (value - ret)
