"""x·w + b of a dense layer in PyTorch, where `torch.addmm` is not the fastest way."""

from __future__ import annotations

from typing import Any, Optional, Tuple

import torch
from torch import Tensor

WIDE = 2**18
"""Weights of a layer from which on oneDNN multiplies: fewer take the same time, and calls of it cost more."""


def product_on_cpu(b: Tensor, x: Tensor, w: Tensor) -> Tensor:
    return torch.addmm(b, x, w) if w.numel() < WIDE else OneDnnProduct.apply(b, x, w)


class OneDnnProduct(torch.autograd.Function):
    """x·w + b by oneDNN instead of `addmm`, for which PyTorch calls MKL.

    MKL has no AVX-512 kernels for AMD's processors: 6.9 ms, where oneDNN takes 3.1 (256 rows, 3136 → 512).
    """

    @staticmethod
    def forward(b: Tensor, x: Tensor, w: Tensor) -> Tensor:
        return times_transposed(x, w.t(), b)

    @staticmethod
    def setup_context(ctx: Any, inputs: Tuple[Tensor, ...], output: Tensor) -> None:
        _, x, w = inputs
        ctx.save_for_backward(x, w)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tuple[Optional[Tensor], ...]:
        x, w = ctx.saved_tensors
        _, wants_x, _ = ctx.needs_input_grad
        return g.sum(0), times_transposed(g, w) if wants_x else None, times_transposed(x.t(), g.t())


def times_transposed(x: Tensor, w: Tensor, b: Optional[Tensor] = None) -> Tensor:
    """x·wᵀ + b."""
    y: Tensor = torch.ops.rldyno.times_transposed(x, w, b)
    return y


# An operation of our own: Inductor takes oneDNN's itself only with weights that never change.
torch.library.define("rldyno::times_transposed", "(Tensor x, Tensor w, Tensor? b) -> Tensor")


@torch.library.impl("rldyno::times_transposed", "cpu")
def _(x: Tensor, w: Tensor, b: Optional[Tensor]) -> Tensor:
    y: Tensor = torch.ops.mkldnn._linear_pointwise(x, w, b, "none", [], "")
    return y


@torch.library.register_fake("rldyno::times_transposed")
def _(x: Tensor, w: Tensor, b: Optional[Tensor]) -> Tensor:
    return x.new_empty(x.shape[0], w.shape[0])


def split_product(b: Tensor, x: Tensor, w: Tensor) -> Tensor:
    """x·w + b for few rows: a long sum in pieces, or a handful of the GPU's processors would do it all."""
    rows, inner = x.shape
    pieces = next((count for count in (16, 12, 8, 7, 6, 4) if inner % count == 0), 1)
    if inner < 256 or pieces == 1:
        return torch.addmm(b, x, w)
    parts = torch.bmm(x.reshape(rows, pieces, -1).transpose(0, 1), w.reshape(pieces, -1, w.shape[1]))
    return parts.sum(0) + b
