"""NumPy: hand-written backpropagation, the honest baseline for small networks.

The losses are the reference's. The passes through the network are written again for speed: layers write
into buffers that are kept from call to call, gradients into one flat vector that the optimiser works on.
"""

from __future__ import annotations

import math
from typing import Any, Dict, List, Optional, Tuple

import numpy as np

from rldyno_rig.batches import BATCHES
from rldyno_rig.reference.learner import choose
from rldyno_rig.reference.losses import Loss, Passes, loss_and_grads
from rldyno_rig.reference.network import Outputs, split_noise
from rldyno_rig.reference.optimiser import adam_scalars, moment_scales
from rldyno_rig.spec import Network, Params, Spec

MODES = ("eager",)
INDEX_DTYPE = "int64"


def facts() -> Dict[str, Any]:
    return {"versions": {"numpy": np.__version__}, "device": "cpu"}


def make(spec: Spec, params: Params, mode: str, device: str, dtype: str) -> Learner:
    assert (mode, device) == ("eager", "cpu")
    return Learner(spec, params, dtype)


class Learner:
    def __init__(self, spec: Spec, params: Params, dtype: str) -> None:
        self.spec = spec
        self.flat, self.params = flattened(params, dtype)
        self.target_flat, self.target = flattened(params, dtype)
        self.gradient, self.gradient_views = flattened(params, dtype)
        # Moments without their (1 − β) factors: two passes over memory less per update.
        self.m_scale, self.v_scale = moment_scales(spec)
        self.m_sum, self.m_views = flattened({name: np.zeros_like(p) for name, p in params.items()}, dtype)
        self.v_sum, self.v_views = flattened({name: np.zeros_like(p) for name, p in params.items()}, dtype)
        self.scratch = np.empty_like(self.flat)
        self.t = 0
        self.engine = Engine(spec.network, self.gradient_views, dtype)
        self.passes = Passes(self.engine.forward, self.engine.backward)
        self.batch_type = BATCHES[spec.algorithm]

    def put(self, *arrays: np.ndarray) -> Tuple[np.ndarray, ...]:
        return arrays

    def act(self, obs: np.ndarray, noise: Optional[np.ndarray] = None) -> Tuple[np.ndarray, ...]:
        outputs = self.forward(obs, noise if self.spec.network.noisy else None)
        return choose(self.spec, outputs, noise)

    def update(self, batch: tuple, lr: float) -> Tuple[float, Optional[np.ndarray]]:
        loss = self._gradient(batch)
        # Data-parallel workers average `self.gradient` here.
        self._clip()
        self._descend(lr)
        return loss.value, loss.priorities

    def read(self, handle: Tuple[float, Optional[np.ndarray]]) -> Tuple[float, Optional[np.ndarray]]:
        return handle

    def sync_target(self) -> None:
        self.target_flat[...] = self.flat

    def drain(self) -> None:
        pass

    def state(self) -> Dict[str, Any]:
        return {
            "params": {name: p.copy() for name, p in self.params.items()},
            "target": {name: p.copy() for name, p in self.target.items()},
            "m": {name: m * self.m_scale for name, m in self.m_views.items()},
            "v": {name: v * self.v_scale for name, v in self.v_views.items()},
            "t": self.t,
        }

    def load(self, state: Dict[str, Any]) -> None:
        for name in self.params:
            self.params[name][...] = state["params"][name]
            self.target[name][...] = state["target"][name]
            self.m_views[name][...] = state["m"][name] / self.m_scale
            self.v_views[name][...] = state["v"][name] / self.v_scale
        self.t = state["t"]

    def forward(self, obs: np.ndarray, noise: Optional[np.ndarray]) -> Outputs:
        return self.engine.forward(self.spec.network, self.params, obs, noise)[0]

    def grads(self, batch: tuple) -> Tuple[float, Params, Params]:
        loss = self._gradient(batch)
        raw = {name: g.copy() for name, g in self.gradient_views.items()}
        self._clip()
        return loss.value, raw, {name: g.copy() for name, g in self.gradient_views.items()}

    def _gradient(self, batch: tuple) -> Loss:
        return loss_and_grads(self.spec, self.params, self.target, self.batch_type(*batch), self.passes)

    def _clip(self) -> None:
        hyper = self.spec.hyper
        if hyper.max_grad_norm:
            norm = math.sqrt(float(np.dot(self.gradient, self.gradient)))
            if norm + hyper.clip_eps > hyper.max_grad_norm:
                self.gradient *= hyper.max_grad_norm / (norm + hyper.clip_eps)

    def _descend(self, lr: float) -> None:
        self.t += 1
        if self.spec.optimiser == "sgd":
            np.multiply(self.gradient, lr, out=self.scratch)
            self.flat -= self.scratch
        else:
            self._adam(lr)

    def _adam(self, lr: float) -> None:
        """reference.optimiser.adam with the constants gathered into three scalars."""
        hyper, g, scratch = self.spec.hyper, self.gradient, self.scratch
        step, root = adam_scalars(hyper, self.t, lr)
        root *= math.sqrt(1 - hyper.adam_beta2)
        self.m_sum *= hyper.adam_beta1
        self.m_sum += g
        np.multiply(g, g, out=scratch)
        self.v_sum *= hyper.adam_beta2
        self.v_sum += scratch
        np.sqrt(self.v_sum, out=scratch)
        scratch += hyper.adam_eps / root
        np.divide(self.m_sum, scratch, out=scratch)
        scratch *= step * (1 - hyper.adam_beta1) / root
        self.flat -= scratch


class Engine:
    """reference.network's `forward` and `backward`, in place. A forward pass overwrites the one before."""

    def __init__(self, network: Network, gradients: Params, dtype: str) -> None:
        self.network, self.gradients, self.dtype = network, gradients, np.dtype(dtype)
        self.buffers: Dict[Tuple[str, int], np.ndarray] = {}

    def forward(
        self, network: Network, params: Params, obs: np.ndarray, noise: Optional[np.ndarray]
    ) -> Tuple[Outputs, List[tuple]]:
        vectors = split_noise(network, noise)
        x = obs.astype(self.dtype, copy=False)
        if network.observation_dtype == "uint8":
            x = x * self.dtype.type(1 / 255)
        tape: List[tuple] = []
        features = {torso: self._torso(torso, params, x, vectors, tape) for torso in network.torsos}
        outputs = {}
        for name, torso, _ in network.heads:
            w, b = weights(name, params, vectors)
            outputs[name] = features[torso] @ w
            outputs[name] += b
            tape.append(("head", name, torso, features[torso], w))
        self.vectors = vectors
        return outputs, tape

    def backward(self, params: Params, tape: List[tuple], head_gradients: Outputs) -> Params:
        arriving: Dict[str, np.ndarray] = {}
        g = np.empty(0)
        for kind, name, *saved in reversed(tape):
            if kind == "head":
                torso, x, w = saved
                g = head_gradients[name]
                self._dense_gradients(name, x, g)
                back = g @ w.T
                arriving[torso] = arriving[torso] + back if torso in arriving else back
            elif kind == "torso":
                g = arriving[name]
            elif kind == "dense":
                x, y, w, first = saved
                self._through_activation(g, y)
                self._dense_gradients(name, x, g)
                g = g if first else np.matmul(g, w.T, out=self._buffer("back " + name, x.shape))
            elif kind == "flatten":
                channels, rows, columns = saved[0]
                g = g.reshape(-1, channels, rows * columns).transpose(0, 2, 1).reshape(-1, channels)
            else:
                g = self._convolution_gradients(name, g, *saved)
        return self.gradients

    def _torso(
        self, torso: str, params: Params, x: np.ndarray, vectors: Params, tape: List[tuple]
    ) -> np.ndarray:
        convolutions = self.network.convolutions
        if convolutions:
            x = x.transpose(0, 2, 3, 1)
        for index, (filters, kernel, stride) in enumerate(convolutions):
            x = self._convolve("{}.conv{}".format(torso, index), params, x, (filters, kernel, stride), tape)
        if convolutions:
            size, rows, columns, channels = x.shape
            tape.append(("flatten", torso, (channels, rows, columns)))
            x = x.transpose(0, 3, 1, 2).reshape(size, -1)
        for index, width in enumerate(self.network.hidden):
            name = "{}.dense{}".format(torso, index)
            w, b = weights(name, params, vectors)
            y = np.matmul(x, w, out=self._buffer(name, (len(x), width)))
            y += b
            self._activate(y)
            tape.append(("dense", name, x, y, w, index == 0 and not convolutions))
            x = y
        tape.append(("torso", torso))
        return x

    def _convolve(
        self, name: str, params: Params, x: np.ndarray, shape: Tuple[int, int, int], tape: List[tuple]
    ) -> np.ndarray:
        """Windows as rows of one matrix, channels last, so that the convolution is one product."""
        filters, kernel, stride = shape
        windows = np.lib.stride_tricks.sliding_window_view(x, (kernel, kernel), axis=(1, 2))
        windows = windows[:, ::stride, ::stride].transpose(0, 1, 2, 4, 5, 3)
        size, rows, columns = windows.shape[:3]
        matrix = self._buffer("windows " + name, (size * rows * columns, kernel * kernel * x.shape[3]))
        matrix.reshape(windows.shape)[...] = windows
        w = params[name + ".w"].reshape(-1, filters)
        y = np.matmul(matrix, w, out=self._buffer(name, (len(matrix), filters)))
        y += params[name + ".b"]
        self._activate(y)
        tape.append(("conv", name, matrix, y, w, x.shape, (rows, columns), kernel, stride))
        return y.reshape(size, rows, columns, filters)

    def _convolution_gradients(
        self,
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
        g = g.reshape(y.shape)
        self._through_activation(g, y)
        np.matmul(matrix.T, g, out=self.gradients[name + ".w"].reshape(w.shape))
        g.sum(0, out=self.gradients[name + ".b"])
        if name.endswith("conv0"):
            return g
        rows, columns = output
        windows = (g @ w.T).reshape(shape[0], rows, columns, kernel, kernel, shape[3])
        back = np.zeros(shape, self.dtype)
        for i in range(kernel):
            for j in range(kernel):
                place = back[:, i : i + stride * rows : stride, j : j + stride * columns : stride]
                place += windows[:, :, :, i, j]
        return back

    def _dense_gradients(self, name: str, x: np.ndarray, g: np.ndarray) -> None:
        gw, gb = self.gradients[name + ".w"], self.gradients[name + ".b"]
        np.matmul(x.T, g, out=gw)
        g.sum(0, out=gb)
        if self.vectors:
            e_in, e_out = self.vectors[name + ".in"], self.vectors[name + ".out"]
            np.multiply(gw, e_in[:, None] * e_out, out=self.gradients[name + ".w_sigma"])
            np.multiply(gb, e_out, out=self.gradients[name + ".b_sigma"])

    def _activate(self, y: np.ndarray) -> None:
        if self.network.activation == "relu":
            np.maximum(y, 0, out=y)
        else:
            np.tanh(y, out=y)

    def _through_activation(self, g: np.ndarray, y: np.ndarray) -> None:
        """∂/∂x from ∂/∂y, in place; y is the activation's output."""
        if self.network.activation == "relu":
            g *= y > 0
        else:
            g *= 1 - y * y

    def _buffer(self, name: str, shape: Tuple[int, ...]) -> np.ndarray:
        key = name, shape[0]
        if key not in self.buffers:
            self.buffers[key] = np.empty(shape, self.dtype)
        return self.buffers[key]


def weights(name: str, params: Params, vectors: Params) -> Tuple[np.ndarray, np.ndarray]:
    """Weight and bias of a dense layer, with its noise added."""
    w, b = params[name + ".w"], params[name + ".b"]
    if not vectors:
        return w, b
    e_in, e_out = vectors[name + ".in"], vectors[name + ".out"]
    noisy = e_in[:, None] * e_out
    noisy *= params[name + ".w_sigma"]
    noisy += w
    return noisy, b + params[name + ".b_sigma"] * e_out


def flattened(arrays: Params, dtype: str) -> Tuple[np.ndarray, Params]:
    """One vector with all the arrays in it, and the arrays as views of it."""
    flat = np.concatenate([array.ravel() for array in arrays.values()]).astype(dtype)
    views, start = {}, 0
    for name, array in arrays.items():
        views[name] = flat[start : start + array.size].reshape(array.shape)
        start += array.size
    return flat, views
