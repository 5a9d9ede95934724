"""Chainer: define-by-run, or the network's schedule recorded once by `static_graph` and replayed.

Chainer's arrays on the CPU are NumPy's, so what needs no gradient is NumPy, as in Chainer's own examples.
All parameters are views of one flat vector on which the optimiser works in place. Static mode covers the
network: a loss's backward holds arrays of the batch in its function nodes, which a schedule would not renew.
The learner is here, what it computes is in `chainer_maths`.
"""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, Optional, Tuple

import chainer
import numpy as np

from rldyno_rig.backends import contract
from rldyno_rig.backends.chainer_maths import (
    Model,
    Network,
    StaticNetwork,
    action_values,
    choose,
    forward,
    gradient,
)
from rldyno_rig.backends.chainer_team import averaging
from rldyno_rig.backends.in_place import OPTIMISERS, clip
from rldyno_rig.reference.optimiser import moment_scales
from rldyno_rig.spec import Params, Spec
from rldyno_rig.team.team import Team

MODES = ("eager", "static")
INDEX_DTYPE = "int32"

# Types are checked on every call of every function otherwise.
chainer.global_config.type_check = False


def facts() -> Dict[str, Any]:
    return {
        "versions": {"chainer": chainer.__version__, "numpy": np.__version__},
        "device": "cpu",
        "threads": os.environ.get("OPENBLAS_NUM_THREADS"),
        "transfer": "none: the framework's arrays are NumPy's",
    }


def make(spec: Spec, params: Params, mode: str, device: str, dtype: str) -> contract.Learner:
    assert mode in MODES
    assert device == "cpu"
    return Learner(spec, params, mode, dtype)


class Learner:
    def __init__(self, spec: Spec, params: Params, mode: str, dtype: str) -> None:
        self.spec, self.model = spec, Model(spec, dtype)
        self.layout, self.gradient = self.model.layout, self.model.gradient
        self.flat, self.target, self.m, self.v = (np.zeros(self.layout.size, dtype) for _ in range(4))
        kind = Network if mode == "eager" else StaticNetwork
        self.weights = kind(self.model, self.layout.views(self.flat))
        self.target_weights = kind(self.model, self.layout.views(self.target))
        self.step = OPTIMISERS[spec.optimiser]
        self.m_scale, self.v_scale = moment_scales(spec)
        self.average: Optional[Callable[[np.ndarray], np.ndarray]] = None
        zeros = {name: np.zeros_like(p) for name, p in params.items()}
        self.load({"params": params, "target": params, "m": zeros, "v": zeros, "t": 0})

    def join(self, team: Team) -> None:
        reduce, means = averaging(team, self.gradient)
        self.average = team.timed(reduce, means, self.gradient.nbytes)

    def put(self, *arrays: np.ndarray) -> Tuple[np.ndarray, ...]:
        return arrays

    def act(self, obs: np.ndarray, noise: Optional[np.ndarray] = None) -> Tuple[np.ndarray, ...]:
        with chainer.no_backprop_mode():
            return choose(self.model, self.weights, obs, noise)

    def values(self, obs: np.ndarray) -> Tuple[np.ndarray, ...]:
        return (action_values(self.model, self.weights, obs).copy(),)

    def update(self, batch: contract.Host, lr: float) -> Tuple[Any, Optional[np.ndarray]]:
        report = gradient(self.model, self.weights, self.target_weights, batch)
        if self.average is not None:
            self.average(self.gradient)
        clip(self.model, self.gradient)
        self.t += 1
        # Chainer's own Adam adds ε to the uncorrected root, and goes through Python once per parameter.
        self.step(self.model, self.flat, self.m, self.v, self.gradient, self.t, lr)
        return report

    def read(self, handle: Tuple[Any, Optional[np.ndarray]]) -> contract.Reading:
        return float(handle[0].array), handle[1]

    def sync_target(self) -> None:
        self.target[...] = self.flat

    def drain(self) -> None:
        pass

    def state(self) -> contract.State:
        return {
            "params": self.layout.unpack(self.flat),
            "target": self.layout.unpack(self.target),
            "m": self.layout.unpack(self.m * self.m_scale),
            "v": self.layout.unpack(self.v * self.v_scale),
            "t": self.t,
        }

    def load(self, state: contract.State) -> None:
        self.flat[...] = self.layout.pack(state["params"])
        self.target[...] = self.layout.pack(state["target"])
        self.m[...] = self.layout.pack(state["m"]) / self.m_scale
        self.v[...] = self.layout.pack(state["v"]) / self.v_scale
        self.t: int = state["t"]

    def forward(self, obs: np.ndarray, noise: Optional[np.ndarray]) -> Params:
        with chainer.no_backprop_mode():
            outputs = forward(self.model, self.weights, obs, noise)
        return {name: output.array for name, output in outputs.items()}

    def grads(self, batch: contract.Host) -> Tuple[float, Params, Params]:
        loss, _ = self.read(gradient(self.model, self.weights, self.target_weights, batch))
        raw = self.layout.unpack(self.gradient)
        clip(self.model, self.gradient)
        return loss, raw, self.layout.unpack(self.gradient)
