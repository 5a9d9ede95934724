"""Networks, gradients and Adam of the open division in PyTorch: tensors are `[rows, features]`, weights flat.

The backward pass is written by hand: an update is then one graph without autograd's tape.
"""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Sequence

import torch
from torch import Tensor

from rldyno_rig.layout import Layout
from rldyno_rig.spec import Spec

Weights = Dict[str, Tensor]


class Descent(NamedTuple):
    """What Adam changes. The corrections are 1 − βᵗ, kept by c ← β·c + (1 − β), which loses no digits."""

    flat: Tensor
    m: Tensor
    v: Tensor
    corrections: Tensor
    """[2]: of β₁ and of β₂."""


class Net(Layout):
    def __init__(self, spec: Spec) -> None:
        super().__init__(spec.network)
        self.hyper = spec.hyper
        self.tanh = spec.network.activation == "tanh"
        dense = ["{{}}.dense{}".format(i) for i in range(len(spec.network.hidden))]
        self.layers: Dict[str, List[str]] = {
            head: [*(name.format(torso) for name in dense), head] for head, torso, _ in spec.network.heads
        }
        """Head → the layers that lead to it, itself the last."""

    def start(self, flat: Tensor) -> Descent:
        return Descent(flat, torch.zeros_like(flat), torch.zeros_like(flat), torch.zeros_like(flat[:2]))

    def forward(self, weights: Weights, head: str, x: Tensor) -> List[Tensor]:
        """The inputs, the activations of each layer and the outputs, each [rows, …]."""
        *hidden, last = self.layers[head]
        tape = [x]
        for name in hidden:
            x = torch.addmm(weights[name + ".b"], x, weights[name + ".w"])
            x = torch.tanh(x) if self.tanh else torch.relu(x)
            tape.append(x)
        return [*tape, torch.addmm(weights[last + ".b"], x, weights[last + ".w"])]

    def backward(self, weights: Weights, head: str, tape: Sequence[Tensor], g: Tensor) -> Weights:
        """∂loss/∂weights of a head and its torso, from ∂loss/∂outputs. `tape`: without the outputs."""
        found, names = {}, self.layers[head]
        for at in range(len(names) - 1, -1, -1):
            y = tape[at]
            found[names[at] + ".w"], found[names[at] + ".b"] = y.T @ g, g.sum(0)
            if at:
                g = g @ weights[names[at] + ".w"].T
                g = g * (1 - y * y) if self.tanh else g * (y > 0)
        return found

    def descend(self, descent: Descent, found: Weights, rate: Any) -> Descent:
        """Clip by the global norm, then Adam: `reference.optimiser`."""
        hyper = self.hyper
        gradient = torch.cat([found[name].reshape(-1) for name in self.shapes])
        if hyper.max_grad_norm:
            norm = torch.sqrt((gradient * gradient).sum())
            gradient = gradient * torch.clamp(hyper.max_grad_norm / (norm + hyper.clip_eps), max=1)
        flat, m, v, corrections = descent
        b1, b2 = hyper.adam_beta1, hyper.adam_beta2
        c1, c2 = b1 * corrections[0] + (1 - b1), b2 * corrections[1] + (1 - b2)
        m = b1 * m + (1 - b1) * gradient
        v = b2 * v + (1 - b2) * gradient * gradient
        flat = flat - rate / c1 * m / (torch.sqrt(v) * (1 / torch.sqrt(c2)) + hyper.adam_eps)
        return Descent(flat, m, v, torch.stack((c1, c2)))
