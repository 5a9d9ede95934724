"""NumPy: hand-written backpropagation, the honest baseline for small networks.

The forward and backward pass are the reference's, in the asked precision. The optimiser works in place on
one flat vector that all parameters are views of.
"""

from __future__ import annotations

import math
from typing import Any, Dict, Optional, Tuple

import numpy as np

from rldyno_rig.batches import BATCHES
from rldyno_rig.reference.learner import choose
from rldyno_rig.reference.losses import loss_and_grads
from rldyno_rig.reference.network import Outputs, forward
from rldyno_rig.reference.optimiser import adam_scalars
from rldyno_rig.spec import Params, Spec

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
        self.flat, self.params = _flat(params, dtype)
        self.target = {name: p.copy() for name, p in self.params.items()}
        # Moments without their (1 − β) factors: two passes over memory less per update.
        self.m_sum, self.m_views = _flat({name: np.zeros_like(p) for name, p in params.items()}, dtype)
        self.v_sum, self.v_views = _flat({name: np.zeros_like(p) for name, p in params.items()}, dtype)
        self.gradient, self.gradient_views = _flat(params, dtype)
        self.scratch = np.empty_like(self.flat)
        self.t = 0

    def put(self, *arrays: np.ndarray) -> Tuple[np.ndarray, ...]:
        return arrays

    def act(self, obs: np.ndarray, noise: Optional[np.ndarray] = None) -> Tuple[np.ndarray, ...]:
        outputs = self.forward(obs, noise if self.spec.network.noisy else None)
        return choose(self.spec, outputs, noise)

    def update(self, batch: tuple, lr: float) -> Tuple[float, Optional[np.ndarray]]:
        loss = loss_and_grads(self.spec, self.params, self.target, BATCHES[self.spec.algorithm](*batch))
        self._gather(loss.grads)
        self._clip()
        self._adam(lr)
        return loss.value, loss.priorities

    def read(self, handle: Tuple[float, Optional[np.ndarray]]) -> Tuple[float, Optional[np.ndarray]]:
        return handle

    def sync_target(self) -> None:
        for name, p in self.params.items():
            self.target[name][...] = p

    def drain(self) -> None:
        pass

    def state(self) -> Dict[str, Any]:
        hyper = self.spec.hyper
        return {
            "params": {name: p.copy() for name, p in self.params.items()},
            "target": {name: p.copy() for name, p in self.target.items()},
            "m": {name: m * (1 - hyper.adam_beta1) for name, m in self.m_views.items()},
            "v": {name: v * (1 - hyper.adam_beta2) for name, v in self.v_views.items()},
            "t": self.t,
        }

    def load(self, state: Dict[str, Any]) -> None:
        hyper = self.spec.hyper
        for name in self.params:
            self.params[name][...] = state["params"][name]
            self.target[name][...] = state["target"][name]
            self.m_views[name][...] = state["m"][name] / (1 - hyper.adam_beta1)
            self.v_views[name][...] = state["v"][name] / (1 - hyper.adam_beta2)
        self.t = state["t"]

    def forward(self, obs: np.ndarray, noise: Optional[np.ndarray]) -> Outputs:
        return forward(self.spec.network, self.params, obs, noise)[0]

    def grads(self, batch: tuple) -> Tuple[float, Params, Params]:
        loss = loss_and_grads(self.spec, self.params, self.target, BATCHES[self.spec.algorithm](*batch))
        self._gather(loss.grads)
        self._clip()
        return loss.value, loss.grads, {name: g.copy() for name, g in self.gradient_views.items()}

    def _gather(self, grads: Params) -> None:
        for name, g in grads.items():
            self.gradient_views[name][...] = g

    def _clip(self) -> None:
        hyper = self.spec.hyper
        if hyper.max_grad_norm:
            norm = math.sqrt(float(np.dot(self.gradient, self.gradient)))
            if norm + hyper.clip_eps > hyper.max_grad_norm:
                self.gradient *= hyper.max_grad_norm / (norm + hyper.clip_eps)

    def _adam(self, lr: float) -> None:
        """reference.optimiser.adam with the constants gathered into three scalars."""
        hyper, g, scratch = self.spec.hyper, self.gradient, self.scratch
        self.t += 1
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


def _flat(arrays: Params, dtype: str) -> Tuple[np.ndarray, Params]:
    """One vector with all the arrays in it, and the arrays as views of it."""
    flat = np.concatenate([array.ravel() for array in arrays.values()]).astype(dtype)
    views, start = {}, 0
    for name, array in arrays.items():
        views[name] = flat[start : start + array.size].reshape(array.shape)
        start += array.size
    return flat, views
