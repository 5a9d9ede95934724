"""Forward and backward pass of every network a spec can describe."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

import numpy as np

from rldyno_rig.spec import Network, Params, noise_shapes

Outputs = Dict[str, np.ndarray]
Tape = List[Tuple[Any, ...]]


def forward(
    network: Network, params: Params, obs: np.ndarray, noise: Optional[np.ndarray]
) -> Tuple[Outputs, Tape]:
    """Raw head outputs, and what `backward` needs; `noise` is a flat vector for noisy networks."""
    dtype = next(iter(params.values())).dtype
    vectors = split_noise(network, noise)
    tape: Tape = []
    features: Dict[str, np.ndarray] = {}
    for torso in network.torsos:
        x = obs.astype(dtype)
        if network.observation_dtype == "uint8":
            x = x / 255
        for index, (_, _, stride) in enumerate(network.convolutions):
            name = "{}.conv{}".format(torso, index)
            y = convolve(x, params[name + ".w"], stride) + params[name + ".b"][:, None, None]
            tape.append(("conv", name, x, stride))
            x = _activate(network, y, tape)
        if network.convolutions:
            tape.append(("flatten", x.shape))
            x = x.reshape(len(x), -1)
        for index in range(len(network.hidden)):
            x = _dense("{}.dense{}".format(torso, index), params, x, vectors, tape)
            x = _activate(network, x, tape)
        features[torso] = x
        tape.append(("torso", torso))
    outputs = {}
    for name, torso, _ in network.heads:
        outputs[name] = _dense(name, params, features[torso], vectors, tape)
        tape.append(("head", name, torso))
    return outputs, tape


def backward(params: Params, tape: Tape, head_gradients: Outputs) -> Params:
    """∂loss/∂params from ∂loss/∂outputs, by walking the tape back to front."""
    grads: Params = {}
    arriving: Dict[str, np.ndarray] = {}
    g = np.zeros(())
    feeding = ""
    for kind, *saved in reversed(tape):
        if kind == "head":
            name, feeding = saved
            g = head_gradients[name]
        elif kind == "torso":
            feeding = ""
            g = arriving[saved[0]]
        elif kind == "dense":
            name, x, w, vectors = saved
            _dense_gradients(name, x, g, vectors, grads)
            g = g @ w.T
            if feeding:
                arriving[feeding] = arriving.get(feeding, 0) + g
        elif kind == "relu":
            g = g * (saved[0] > 0)
        elif kind == "tanh":
            g = g * (1 - saved[0] ** 2)
        elif kind == "flatten":
            g = g.reshape(saved[0])
        else:
            name, x, stride = saved
            grads[name + ".b"] = g.sum((0, 2, 3))
            grads[name + ".w"], g = convolve_gradients(x, params[name + ".w"], stride, g)
    return {name: grads[name] for name in params}


def q_values(network: Network, outputs: Outputs) -> np.ndarray:
    """[batch, actions], or [batch, actions, atoms] of a distribution. Dueling: Q = V + A − mean A."""
    shape = (-1, network.actions, network.atoms)
    q: np.ndarray
    if network.dueling:
        advantage = outputs["advantage"].reshape(shape)
        q = outputs["value"][:, None, :] + advantage - advantage.mean(1, keepdims=True)
    else:
        q = outputs["q"].reshape(shape)
    return q if network.atoms > 1 else q[:, :, 0]


def q_gradients(network: Network, g: np.ndarray) -> Outputs:
    """∂loss/∂heads from ∂loss/∂q."""
    g = g.reshape(len(g), network.actions, network.atoms)
    if not network.dueling:
        return {"q": g.reshape(len(g), -1)}
    return {"value": g.sum(1), "advantage": (g - g.mean(1, keepdims=True)).reshape(len(g), -1)}


def split_noise(network: Network, noise: Optional[np.ndarray]) -> Dict[str, np.ndarray]:
    """One flat vector → the named noise vectors of each layer."""
    vectors: Dict[str, np.ndarray] = {}
    start = 0
    for name, (size,) in noise_shapes(network).items():
        assert noise is not None, "a noisy network needs noise"
        vectors[name] = noise[start : start + size]
        start += size
    return vectors


def convolve(x: np.ndarray, w: np.ndarray, stride: int) -> np.ndarray:
    """y[b,f,h,w] = Σ x[b,c,h·s+i,w·s+j] · w[i,j,c,f], valid padding."""
    y: np.ndarray = np.tensordot(_patches(x, w.shape[0], stride), w, ((1, 4, 5), (2, 0, 1)))
    return np.transpose(y, (0, 3, 1, 2))


def convolve_gradients(
    x: np.ndarray, w: np.ndarray, stride: int, g: np.ndarray
) -> Tuple[np.ndarray, np.ndarray]:
    """∂loss/∂w and ∂loss/∂x from g = ∂loss/∂y."""
    kernel, (rows, columns) = w.shape[0], g.shape[2:]
    gw = np.tensordot(_patches(x, kernel, stride), g, ((0, 2, 3), (0, 2, 3))).transpose(1, 2, 0, 3)
    # [batch, rows, columns, i, j, channel]: what each window hands back, added where the window lay.
    windows = np.tensordot(g, w, ((1,), (3,)))
    gx = np.zeros_like(x)
    for i in range(kernel):
        for j in range(kernel):
            place = gx[:, :, i : i + stride * rows : stride, j : j + stride * columns : stride]
            place += windows[:, :, :, i, j].transpose(0, 3, 1, 2)
    return gw, gx


def _patches(x: np.ndarray, kernel: int, stride: int) -> np.ndarray:
    """[batch, channels, rows, columns, kernel, kernel] view of every window."""
    windows = np.lib.stride_tricks.sliding_window_view(x, (kernel, kernel), axis=(2, 3))
    return windows[:, :, ::stride, ::stride]


def _dense(
    name: str, params: Params, x: np.ndarray, vectors: Dict[str, np.ndarray], tape: Tape
) -> np.ndarray:
    """y = x·W + b; noisy: W + σ_W ∘ (ε_in ⊗ ε_out), b + σ_b ∘ ε_out."""
    w, b = params[name + ".w"], params[name + ".b"]
    if vectors:
        w = w + params[name + ".w_sigma"] * np.outer(vectors[name + ".in"], vectors[name + ".out"])
        b = b + params[name + ".b_sigma"] * vectors[name + ".out"]
    tape.append(("dense", name, x, w, vectors))
    return x @ w + b


def _dense_gradients(
    name: str, x: np.ndarray, g: np.ndarray, vectors: Dict[str, np.ndarray], grads: Params
) -> None:
    grads[name + ".w"], grads[name + ".b"] = x.T @ g, g.sum(0)
    if vectors:
        grads[name + ".w_sigma"] = grads[name + ".w"] * np.outer(
            vectors[name + ".in"], vectors[name + ".out"]
        )
        grads[name + ".b_sigma"] = grads[name + ".b"] * vectors[name + ".out"]


def _activate(network: Network, x: np.ndarray, tape: Tape) -> np.ndarray:
    y: np.ndarray = np.maximum(x, 0) if network.activation == "relu" else np.tanh(x)
    tape.append((network.activation, y))
    return y
