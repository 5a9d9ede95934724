"""Networks, gradients and Adam of the open division in JAX: arrays are `[features, rows]`, all weights flat.

The backward pass is written by hand. With rows last no product needs a transposed activation, for which XLA
has no fast kernel on a CPU. The first layers of actor and
critic are one product, and their biases are a row of it.
"""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Sequence, Tuple

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from rldyno_rig.open.joined import JoinedNet
from rldyno_rig.spec import Params, Spec

Weights = Dict[str, Array]
FEW_ROWS = 1024
"""On a GPU so many rows or fewer are multiplied by sums, which fuse: fewer kernels for a step of the loop."""
PART_ROWS = 256
"""Of one part of a gradient on a GPU. cuBLAS gives few outputs to one processor, however deep."""


class Descent(NamedTuple):
    """What Adam changes. The corrections are 1 − βᵗ, kept by c ← β·c + (1 − β), which loses no digits."""

    flat: Array
    m: Array
    v: Array
    correction1: Array
    correction2: Array


class Net(JoinedNet):
    """The flat vector as JAX's arrays."""

    def __init__(self, spec: Spec, dtype: str, device: str) -> None:
        super().__init__(spec, dtype)
        self.on_gpu = device != "cpu"

    def named(self, flat: Array) -> Weights:
        pieces = zip(self.shapes.items(), lax.split(flat, self.sizes))
        return {name: piece.reshape(shape) for (name, shape), piece in pieces}

    def activate(self, x: Array) -> Array:
        return jnp.maximum(x, 0) if self.relu else jnp.tanh(x)

    def slope(self, y: Array, g: Array) -> Array:
        """g · the activation's derivative where its output is y."""
        return jnp.where(y > 0, g, 0) if self.relu else g * (1 - y * y)

    def start(self, params: Params) -> Descent:
        flat = jnp.asarray(self.pack(params))
        zero = np.zeros((), self.dtype)
        return Descent(flat, jnp.zeros_like(flat), jnp.zeros_like(flat), jnp.asarray(zero), jnp.asarray(zero))


def with_ones(obs: Array) -> Array:
    """[inputs + 1, rows]: the last row multiplies the biases of the first layers."""
    return jnp.concatenate([obs, jnp.ones_like(obs[:1])])


def forward(net: Net, weights: Weights, x: Array, torsos: Sequence[str] = ()) -> Tuple[List[Array], Any]:
    """Outputs `[outputs, rows]` of the heads on these torsos (default all), and the activations."""
    wanted, width = torsos or net.torsos, net.hidden[0]
    w = weights["first"]
    if len(wanted) < len(net.torsos):
        w = w[:, net.columns(wanted[0])]
    first = net.activate(w.T @ x)
    tape = {}
    for i, torso in enumerate(wanted):
        layers = [first[i * width : (i + 1) * width]]
        for layer in range(1, len(net.hidden)):
            name = "{}.{}".format(torso, layer)
            layers.append(net.activate(weights[name + ".w"].T @ layers[-1] + weights[name + ".b"][:, None]))
        tape[torso] = layers
    outputs = [
        weights[name + ".w"].T @ tape[torso][-1] + weights[name + ".b"][:, None]
        for name, torso, _ in net.heads
        if torso in wanted
    ]
    return outputs, (first, tape)


def backward(net: Net, weights: Weights, x: Array, tape: Any, gradients: Sequence[Array]) -> Array:
    """∂loss/∂weights as the flat vector, from ∂loss/∂outputs of each head."""
    first, layers = tape
    found: Weights = {}
    arriving: Dict[str, Array] = {}
    for (name, torso, _), g in zip(net.heads, gradients):
        found[name + ".w"], found[name + ".b"] = outer(net, layers[torso][-1], g), g.sum(1)
        back = weights[name + ".w"] @ g
        arriving[torso] = arriving[torso] + back if torso in arriving else back
    for torso in net.torsos:
        g = arriving[torso]
        for layer in range(len(net.hidden) - 1, 0, -1):
            name = "{}.{}".format(torso, layer)
            g = net.slope(layers[torso][layer], g)
            found[name + ".w"], found[name + ".b"] = outer(net, layers[torso][layer - 1], g), g.sum(1)
            g = weights[name + ".w"] @ g
        arriving[torso] = g
    g = net.slope(first, jnp.concatenate([arriving[torso] for torso in net.torsos]))
    found["first"] = outer(net, x, g)
    return lax.concatenate([found[name].ravel() for name in net.shapes], 0)


def outer(net: Net, y: Array, g: Array) -> Array:
    """Σ over rows of y[i, row] · g[o, row]."""
    rows = y.shape[1]
    if not net.on_gpu or rows <= PART_ROWS or rows % PART_ROWS:
        return y @ g.T
    y, g = (array.reshape(len(array), -1, PART_ROWS) for array in (y, g))
    return lax.dot_general(y, g, (((2,), (2,)), ((1,), (1,)))).sum(0)


def act_outputs(net: Net, weights: Weights, obs: Sequence[Array], head: str) -> Array:
    """[rows, outputs] of one head. Rows first, and all but the square products as sums that fuse: for few
    rows that is faster than `forward`.
    """
    times = summed if net.on_gpu and len(obs[0]) <= FEW_ROWS else jnp.matmul
    torso = next(torso for name, torso, _ in net.heads if name == head)
    first = weights["first"][:, net.columns(torso)]
    h = net.activate(sum((o[:, None] * first[i] for i, o in enumerate(obs)), first[-1]))
    for layer in range(1, len(net.hidden)):
        name = "{}.{}".format(torso, layer)
        h = net.activate(times(h, weights[name + ".w"]) + weights[name + ".b"])
    return times(h, weights[head + ".w"]) + weights[head + ".b"]


def summed(h: Array, w: Array) -> Array:
    """h · w."""
    return (h[:, :, None] * w).sum(1)


def descend(net: Net, descent: Descent, gradient: Array, rate: Array) -> Descent:
    """Clip by the global norm, then Adam: `reference.optimiser`."""
    hyper = net.hyper
    b1, b2 = hyper.adam_beta1, hyper.adam_beta2
    if hyper.max_grad_norm:
        norm = jnp.sqrt(jnp.vdot(gradient, gradient))
        gradient = gradient * jnp.minimum(1, hyper.max_grad_norm / (norm + hyper.clip_eps))
    flat, m, v, correction1, correction2 = descent
    correction1 = b1 * correction1 + (1 - b1)
    correction2 = b2 * correction2 + (1 - b2)
    m = b1 * m + (1 - b1) * gradient
    v = b2 * v + (1 - b2) * gradient * gradient
    step, root = rate / correction1, 1 / jnp.sqrt(correction2)
    return Descent(flat - step * m / (jnp.sqrt(v) * root + hyper.adam_eps), m, v, correction1, correction2)
