"""What the learner in NumPy computes: passes through the network, and the reference's losses on them.

Layers write into buffers that are kept from call to call, gradients into one flat vector.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Tuple

import numpy as np

from rldyno_rig.layout import Layout, torso_layers
from rldyno_rig.reference import learner as reference
from rldyno_rig.reference import losses
from rldyno_rig.reference.losses import Loss, Passes
from rldyno_rig.reference.network import Outputs, split_noise
from rldyno_rig.spec import Network, Params, Spec

Tape = List[Tuple[Any, ...]]
Batch = Tuple[np.ndarray, ...]


class Model:
    """What the functions below need to know of a spec, and the memory that they work in."""

    def __init__(self, spec: Spec, dtype: str) -> None:
        self.spec, self.network, self.dtype = spec, spec.network, np.dtype(dtype)
        self.hyper = spec.hyper
        self.loss = LOSSES[spec.algorithm]
        self.batch_type = spec.batch
        self.torsos = tuple((torso, *torso_layers(self.network, torso)) for torso in self.network.torsos)
        self.layout = Layout(spec.network)
        self.gradient = np.zeros(self.layout.size, dtype)
        self.gradients = self.layout.views(self.gradient)
        self.scratch = np.empty_like(self.gradient)
        self.buffers: Dict[Tuple[str, int], np.ndarray] = {}
        self.vectors: Params = {}
        """The noise of the last forward pass."""

        def passed(network: Network, params: Params, obs: np.ndarray, noise: Any) -> Tuple[Outputs, Tape]:
            return forward(self, params, obs, noise)

        def passed_back(params: Params, tape: Tape, head_gradients: Outputs) -> Params:
            return backward(self, tape, head_gradients)

        self.passes = Passes(passed, passed_back)

    def buffer(self, name: str, shape: Tuple[int, ...]) -> np.ndarray:
        """The same memory for every call with as many rows."""
        key = name, shape[0]
        if key not in self.buffers:
            self.buffers[key] = np.empty(shape, self.dtype)
        return self.buffers[key]


def forward(
    model: Model, weights: Params, obs: np.ndarray, noise: Optional[np.ndarray]
) -> Tuple[Outputs, Tape]:
    """Raw outputs of the heads, and what `backward` needs. It overwrites the pass before."""
    network = model.network
    vectors = model.vectors = split_noise(network, noise)
    x = obs.astype(model.dtype, copy=False)
    if network.observation_dtype == "uint8":
        x = x * model.dtype.type(1 / 255)
    tape: Tape = []
    features = {}
    for torso, convolutions, denses in model.torsos:
        y = convolved(model, convolutions, weights, x, tape) if convolutions else x
        for name in denses:
            y = dense(model, name, weights, y, tape)
        tape.append(("torso", torso))
        features[torso] = y
    outputs = {}
    for name, torso, _ in network.heads:
        w, b = noisy(name, weights, vectors)
        outputs[name] = features[torso] @ w
        outputs[name] += b
        tape.append(("head", name, torso, features[torso], w))
    return outputs, tape


def backward(model: Model, tape: Tape, head_gradients: Outputs) -> Params:
    """∂loss/∂weights into `model.gradients`, by walking the tape back to front."""
    arriving: Dict[str, np.ndarray] = {}
    g: Any = None
    for kind, name, *saved in reversed(tape):
        if kind == "head":
            torso, x, w = saved
            g = head_gradients[name]
            dense_gradients(model, name, x, g)
            back = g @ w.T
            arriving[torso] = arriving[torso] + back if torso in arriving else back
        elif kind == "torso":
            g = arriving[name]
        elif kind == "dense":
            x, y, w = saved
            through_activation(model, g, y)
            dense_gradients(model, name, x, g)
            if model.network.convolutions or not name.endswith("dense0"):
                g = np.matmul(g, w.T, out=model.buffer("back " + name, x.shape))
        elif kind == "flatten":
            channels, rows, columns = saved[0]
            g = g.reshape(-1, channels, rows * columns).transpose(0, 2, 1).reshape(-1, channels)
        else:
            g = convolve_gradients(model, name, g, *saved)
    return model.gradients


def convolved(
    model: Model, convolutions: Tuple[Tuple[str, int], ...], weights: Params, x: np.ndarray, tape: Tape
) -> np.ndarray:
    """[batch, features], flattened channel-first."""
    x = x.transpose(0, 2, 3, 1)
    for name, stride in convolutions:
        x = convolve(model, name, weights, x, stride, tape)
    size, rows, columns, channels = x.shape
    tape.append(("flatten", "", (channels, rows, columns)))
    return x.transpose(0, 3, 1, 2).reshape(size, -1)


def convolve(model: Model, name: str, weights: Params, x: np.ndarray, stride: int, tape: Tape) -> np.ndarray:
    """Windows as rows of one matrix, channels last, so that the convolution is one product."""
    kernel, _, _, filters = weights[name + ".w"].shape
    windows = np.lib.stride_tricks.sliding_window_view(x, (kernel, kernel), axis=(1, 2))
    windows = windows[:, ::stride, ::stride].transpose(0, 1, 2, 4, 5, 3)
    size, rows, columns = windows.shape[:3]
    matrix = model.buffer("windows " + name, (size * rows * columns, kernel * kernel * x.shape[3]))
    matrix.reshape(windows.shape)[...] = windows
    w = weights[name + ".w"].reshape(-1, filters)
    y = np.matmul(matrix, w, out=model.buffer(name, (len(matrix), filters)))
    y += weights[name + ".b"]
    activate(model, y)
    tape.append(("conv", name, matrix, y, w, x.shape, (rows, columns), kernel, stride))
    return y.reshape(size, rows, columns, filters)


def convolve_gradients(
    model: Model,
    name: str,
    g: np.ndarray,
    matrix: np.ndarray,
    y: np.ndarray,
    w: np.ndarray,
    shape: Tuple[int, ...],
    output: Tuple[int, int],
    kernel: int,
    stride: int,
) -> np.ndarray:
    """The gradients of one convolution; ∂loss/∂x, except of the first one, where it is not needed."""
    g = g.reshape(y.shape)
    through_activation(model, g, y)
    np.matmul(matrix.T, g, out=model.gradients[name + ".w"].reshape(w.shape))
    g.sum(0, out=model.gradients[name + ".b"])
    if name.endswith("conv0"):
        return g
    rows, columns = output
    windows = (g @ w.T).reshape(shape[0], rows, columns, kernel, kernel, shape[3])
    back = np.zeros(shape, model.dtype)
    for i in range(kernel):
        for j in range(kernel):
            place = back[:, i : i + stride * rows : stride, j : j + stride * columns : stride]
            place += windows[:, :, :, i, j]
    return back


def dense(model: Model, name: str, weights: Params, x: np.ndarray, tape: Tape) -> np.ndarray:
    """activation(x·W + b), and a note of it on the tape."""
    w, b = noisy(name, weights, model.vectors)
    y = np.matmul(x, w, out=model.buffer(name, (len(x), w.shape[1])))
    y += b
    activate(model, y)
    tape.append(("dense", name, x, y, w))
    return y


def dense_gradients(model: Model, name: str, x: np.ndarray, g: np.ndarray) -> None:
    gw, gb = model.gradients[name + ".w"], model.gradients[name + ".b"]
    np.matmul(x.T, g, out=gw)
    g.sum(0, out=gb)
    if model.vectors:
        e_in, e_out = model.vectors[name + ".in"], model.vectors[name + ".out"]
        np.multiply(gw, e_in[:, None] * e_out, out=model.gradients[name + ".w_sigma"])
        np.multiply(gb, e_out, out=model.gradients[name + ".b_sigma"])


def noisy(name: str, weights: Params, vectors: Params) -> Tuple[np.ndarray, np.ndarray]:
    """W + σ_W ∘ (ε_in ⊗ ε_out) and b + σ_b ∘ ε_out; W and b themselves without noise."""
    w, b = weights[name + ".w"], weights[name + ".b"]
    if not vectors:
        return w, b
    e_in, e_out = vectors[name + ".in"], vectors[name + ".out"]
    sum_w = e_in[:, None] * e_out
    sum_w *= weights[name + ".w_sigma"]
    sum_w += w
    return sum_w, b + weights[name + ".b_sigma"] * e_out


def activate(model: Model, y: np.ndarray) -> None:
    if model.network.activation == "relu":
        np.maximum(y, 0, out=y)
    else:
        np.tanh(y, out=y)


def through_activation(model: Model, g: np.ndarray, y: np.ndarray) -> None:
    """∂/∂x from ∂/∂y, in place; y is the activation's output."""
    if model.network.activation == "relu":
        g *= y > 0
    else:
        g *= 1 - y * y


def choose(model: Model, weights: Params, obs: np.ndarray, noise: Optional[np.ndarray]) -> Batch:
    """What `act` returns: the greedy action, or a sampled one with its log-probability and the value."""
    outputs = forward(model, weights, obs, noise if model.network.noisy else None)[0]
    return reference.choose(model.spec, outputs, noise)


def dqn_loss(model: Model, weights: Params, target: Params, batch: Any) -> Loss:
    return losses.dqn(model.spec, weights, target, batch, model.passes)


def rainbow_loss(model: Model, weights: Params, target: Params, batch: Any) -> Loss:
    return losses.rainbow(model.spec, weights, target, batch, model.passes)


def a2c_loss(model: Model, weights: Params, target: Params, batch: Any) -> Loss:
    return losses.a2c(model.spec, weights, target, batch, model.passes)


def ppo_loss(model: Model, weights: Params, target: Params, batch: Any) -> Loss:
    return losses.ppo(model.spec, weights, target, batch, model.passes)


def classifier_loss(model: Model, weights: Params, target: Params, batch: Any) -> Loss:
    return losses.classifier(model.spec, weights, target, batch, model.passes)


LOSSES: Dict[str, Callable[..., Loss]] = {
    "dqn": dqn_loss,
    "rainbow": rainbow_loss,
    "a2c": a2c_loss,
    "ppo": ppo_loss,
    "classifier": classifier_loss,
}


def gradient(
    model: Model, weights: Params, target: Params, batch: Batch
) -> Tuple[float, Optional[np.ndarray]]:
    """(loss, priorities where the algorithm has them); the gradient is in `model.gradient`."""
    loss = model.loss(model, weights, target, model.batch_type(*batch))
    return loss.value, loss.priorities
