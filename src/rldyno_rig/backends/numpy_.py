"""NumPy: hand-written backpropagation, the fair baseline for small networks.

All parameters are views of one flat vector on which the optimiser works in place, and so are the gradients.
The learner is here, what it computes is in `numpy_maths`.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Optional, Tuple

import numpy as np

from rldyno_rig.backends import contract
from rldyno_rig.backends.in_place import OPTIMISERS, clip
from rldyno_rig.backends.numpy_maths import Model, action_values, choose, forward, gradient
from rldyno_rig.reference.optimiser import moment_scales
from rldyno_rig.spec import Params, Spec
from rldyno_rig.team import host
from rldyno_rig.team.team import Team

MODES = ("eager",)
INDEX_DTYPE = "int64"


def facts() -> Dict[str, Any]:
    return {"versions": {"numpy": np.__version__}, "device": "cpu"}


def make(spec: Spec, params: Params, mode: str, device: str, dtype: str) -> contract.Learner:
    assert (mode, device) == ("eager", "cpu")
    return Learner(spec, params, dtype)


class Learner:
    def __init__(self, spec: Spec, params: Params, dtype: str) -> None:
        self.spec = spec
        self.model = Model(spec, dtype)
        self.layout, self.gradient = self.model.layout, self.model.gradient
        self.flat, self.target, self.m, self.v = (np.zeros(self.layout.size, dtype) for _ in range(4))
        self.weights, self.target_weights = self.layout.views(self.flat), self.layout.views(self.target)
        self.step = OPTIMISERS[spec.optimiser]
        self.m_scale, self.v_scale = moment_scales(spec)
        self.average: Optional[Callable[[np.ndarray], np.ndarray]] = None
        zeros = {name: np.zeros_like(p) for name, p in params.items()}
        self.load({"params": params, "target": params, "m": zeros, "v": zeros, "t": 0})

    def join(self, team: Team) -> None:
        reduce = host.averaging(team.rank, team.size)
        self.average = team.timed(reduce, host.MEANS, self.gradient.nbytes)

    def put(self, *arrays: np.ndarray) -> Tuple[np.ndarray, ...]:
        return arrays

    def act(self, obs: np.ndarray, noise: Optional[np.ndarray] = None) -> Tuple[np.ndarray, ...]:
        return choose(self.model, self.weights, obs, noise)

    def values(self, obs: np.ndarray) -> Tuple[np.ndarray, ...]:
        return (action_values(self.model, self.weights, obs).copy(),)

    def update(self, batch: Tuple[np.ndarray, ...], lr: float) -> contract.Reading:
        report = gradient(self.model, self.weights, self.target_weights, batch)
        if self.average is not None:
            self.average(self.gradient)
        clip(self.model, self.gradient)
        self.t += 1
        self.step(self.model, self.flat, self.m, self.v, self.gradient, self.t, lr)
        return report

    def read(self, handle: contract.Reading) -> contract.Reading:
        return handle

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
        return forward(self.model, self.weights, obs, noise)[0]

    def grads(self, batch: Tuple[np.ndarray, ...]) -> Tuple[float, Params, Params]:
        loss, _ = gradient(self.model, self.weights, self.target_weights, batch)
        raw = self.layout.unpack(self.gradient)
        clip(self.model, self.gradient)
        return loss, raw, self.layout.unpack(self.gradient)
