"""The backend contract, fulfilled by the reference. Proofs compare every backend's learner with this one."""

from __future__ import annotations

from typing import Any, Dict, Optional, Tuple

import numpy as np

from rldyno_rig.reference.losses import expected, log_softmax, loss_and_grads
from rldyno_rig.reference.network import Outputs, forward, q_values
from rldyno_rig.reference.optimiser import adam, clip, sgd
from rldyno_rig.spec import SGD, Params, Spec


class ReferenceLearner:
    def __init__(self, spec: Spec, params: Params, dtype: str) -> None:
        self.spec = spec
        self.dtype = np.dtype(dtype)
        self.params: Params
        self.target: Params
        self.m: Params
        self.v: Params
        self.t: int
        zeros = {name: np.zeros_like(p) for name, p in params.items()}
        self.load({"params": params, "target": params, "m": zeros, "v": zeros, "t": 0})

    def put(self, *arrays: np.ndarray) -> Tuple[np.ndarray, ...]:
        return arrays

    def act(self, obs: np.ndarray, noise: Optional[np.ndarray] = None) -> Tuple[np.ndarray, ...]:
        outputs = self.forward(obs, noise if self.spec.network.noisy else None)
        return choose(self.spec, outputs, noise)

    def update(self, batch: Any, lr: float) -> Tuple[float, Optional[np.ndarray]]:
        loss = loss_and_grads(self.spec, self.params, self.target, batch)
        grads = clip(loss.grads, self.spec.hyper)
        self.t += 1
        if self.spec.optimiser == SGD:
            self.params = sgd(self.params, grads, lr)
        else:
            self.params, self.m, self.v = adam(
                self.params, self.m, self.v, grads, self.spec.hyper, self.t, lr
            )
        return loss.value, loss.priorities

    def read(self, handle: Tuple[float, Optional[np.ndarray]]) -> Tuple[float, Optional[np.ndarray]]:
        return handle

    def sync_target(self) -> None:
        self.target = dict(self.params)

    def drain(self) -> None:
        pass

    def state(self) -> Dict[str, Any]:
        return {"params": self.params, "target": self.target, "m": self.m, "v": self.v, "t": self.t}

    def load(self, state: Dict[str, Any]) -> None:
        def cast(arrays: Params) -> Params:
            return {name: np.array(array, self.dtype) for name, array in arrays.items()}

        self.params, self.target = cast(state["params"]), cast(state["target"])
        self.m, self.v, self.t = cast(state["m"]), cast(state["v"]), state["t"]

    def forward(self, obs: np.ndarray, noise: Optional[np.ndarray]) -> Outputs:
        return forward(self.spec.network, self.params, obs, noise)[0]

    def grads(self, batch: Any) -> Tuple[float, Params, Params]:
        loss = loss_and_grads(self.spec, self.params, self.target, batch)
        return loss.value, loss.grads, clip(loss.grads, self.spec.hyper)


def choose(spec: Spec, outputs: Outputs, noise: Optional[np.ndarray]) -> Tuple[np.ndarray, ...]:
    """Head outputs → what `act` returns: the greedy action, or a sampled one with log-probability and value.

    argmax(logits + Gumbel noise) is a sample of softmax(logits).
    """
    if not spec.network.samples:
        return (expected(spec, q_values(spec.network, outputs)).argmax(1),)
    log_p = log_softmax(outputs["policy"])
    action = (outputs["policy"] + noise).argmax(1)
    return action, log_p[np.arange(len(action)), action], outputs["value"][:, 0]
