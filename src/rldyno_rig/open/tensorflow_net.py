"""Networks, gradients and Adam of the open division in TensorFlow: tensors are `[features, rows]`.

As in `jax_net`, because both are compiled by XLA: rows last, one product for the first layers, and a backward
pass written by hand.
"""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Sequence, Tuple

import numpy as np
import tensorflow as tf

from rldyno_rig.open.joined import JoinedNet
from rldyno_rig.spec import Params

Tensor = Any
Weights = Dict[str, Tensor]


class Descent(NamedTuple):
    """What Adam changes. The corrections are 1 − βᵗ, kept by c ← β·c + (1 − β), which loses no digits."""

    flat: Tensor
    m: Tensor
    v: Tensor
    correction1: Tensor
    correction2: Tensor


class Net(JoinedNet):
    """The flat vector as TensorFlow's tensors."""

    def named(self, flat: Tensor) -> Weights:
        pieces = zip(self.shapes.items(), tf.split(flat, self.sizes))
        return {name: tf.reshape(piece, shape) for (name, shape), piece in pieces}

    def activate(self, x: Tensor) -> Tensor:
        return tf.maximum(x, 0) if self.relu else tf.tanh(x)

    def slope(self, y: Tensor, g: Tensor) -> Tensor:
        """g · the activation's derivative where its output is y."""
        return tf.where(y > 0, g, tf.zeros_like(g)) if self.relu else g * (1 - y * y)

    def start(self, params: Params) -> Descent:
        flat = self.pack(params)
        zero, zeros = np.zeros((), self.dtype), np.zeros_like(flat)
        return Descent(*map(tf.constant, (flat, zeros, zeros, zero, zero)))


def with_ones(obs: Tensor) -> Tensor:
    """[inputs + 1, rows]: the last row multiplies the biases of the first layers."""
    return tf.concat([obs, tf.ones_like(obs[:1])], 0)


def forward(net: Net, weights: Weights, x: Tensor, torsos: Sequence[str] = ()) -> Tuple[List[Tensor], Any]:
    """Outputs `[outputs, rows]` of the heads on these torsos (default all), and the activations."""
    wanted, width = torsos or net.torsos, net.hidden[0]
    w = weights["first"]
    if len(wanted) < len(net.torsos):
        w = w[:, net.columns(wanted[0])]
    first = net.activate(tf.matmul(w, x, transpose_a=True))
    tape = {}
    for i, torso in enumerate(wanted):
        layers = [first[i * width : (i + 1) * width]]
        for layer in range(1, len(net.hidden)):
            layers.append(net.activate(_dense(weights, "{}.{}".format(torso, layer), layers[-1])))
        tape[torso] = layers
    outputs = [_dense(weights, name, tape[torso][-1]) for name, torso, _ in net.heads if torso in wanted]
    return outputs, (first, tape)


def _dense(weights: Weights, name: str, x: Tensor) -> Tensor:
    return tf.matmul(weights[name + ".w"], x, transpose_a=True) + weights[name + ".b"][:, None]


def backward(net: Net, weights: Weights, x: Tensor, tape: Any, gradients: Sequence[Tensor]) -> Tensor:
    """∂loss/∂weights as the flat vector, from ∂loss/∂outputs of each head."""
    first, layers = tape
    found: Weights = {}
    arriving: Dict[str, Tensor] = {}
    for (name, torso, _), g in zip(net.heads, gradients):
        back = _dense_back(weights, found, name, layers[torso][-1], g)
        arriving[torso] = arriving[torso] + back if torso in arriving else back
    for torso in net.torsos:
        for layer in range(len(net.hidden) - 1, 0, -1):
            g = net.slope(layers[torso][layer], arriving[torso])
            name = "{}.{}".format(torso, layer)
            arriving[torso] = _dense_back(weights, found, name, layers[torso][layer - 1], g)
    g = net.slope(first, tf.concat([arriving[torso] for torso in net.torsos], 0))
    found["first"] = tf.matmul(x, g, transpose_b=True)
    return tf.concat([tf.reshape(found[name], [-1]) for name in net.shapes], 0)


def _dense_back(weights: Weights, found: Weights, name: str, x: Tensor, g: Tensor) -> Tensor:
    """∂loss/∂inputs of a layer; keeps ∂loss/∂weights."""
    found[name + ".w"], found[name + ".b"] = tf.matmul(x, g, transpose_b=True), tf.reduce_sum(g, 1)
    return tf.matmul(weights[name + ".w"], g)


def act_outputs(net: Net, weights: Weights, obs: Sequence[Tensor], head: str) -> Tensor:
    """[rows, outputs] of one head. Rows first, and all but the square products as sums that fuse: for few
    rows that is faster than `forward`.
    """
    torso = next(torso for name, torso, _ in net.heads if name == head)
    first = weights["first"][:, net.columns(torso)]
    h = net.activate(sum((o[:, None] * first[i] for i, o in enumerate(obs)), first[-1]))
    for layer in range(1, len(net.hidden)):
        name = "{}.{}".format(torso, layer)
        h = net.activate(tf.matmul(h, weights[name + ".w"]) + weights[name + ".b"])
    return tf.matmul(h, weights[head + ".w"]) + weights[head + ".b"]


def descend(net: Net, descent: Descent, gradient: Tensor, rate: Tensor) -> Descent:
    """Clip by the global norm, then Adam: `reference.optimiser`."""
    hyper = net.hyper
    b1, b2 = hyper.adam_beta1, hyper.adam_beta2
    if hyper.max_grad_norm:
        norm = tf.sqrt(tf.reduce_sum(gradient * gradient))
        gradient = gradient * tf.minimum(hyper.max_grad_norm / (norm + hyper.clip_eps), 1)
    flat, m, v, correction1, correction2 = descent
    correction1 = b1 * correction1 + (1 - b1)
    correction2 = b2 * correction2 + (1 - b2)
    m = b1 * m + (1 - b1) * gradient
    v = b2 * v + (1 - b2) * gradient * gradient
    step, root = rate / correction1, 1 / tf.sqrt(correction2)
    return Descent(flat - step * m / (tf.sqrt(v) * root + hyper.adam_eps), m, v, correction1, correction2)
