"""Learners of Theano and PyTensor: graphs of a few functions, each compiled when it is first used.

Parameters, moments and gradients are each one flat shared vector that the graphs see through views: Adam is
one to three fused kernels instead of as many per parameter, and one buffer holds the whole gradient.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Callable, List, Optional, Sequence, Tuple

import numpy as np

from rldyno_rig.backends import contract
from rldyno_rig.backends.symbolic_maths import Model, Updates, action_values, choose, clip, forward, gradient
from rldyno_rig.reference.optimiser import step_scalars
from rldyno_rig.spec import Params
from rldyno_rig.team import host
from rldyno_rig.team.team import Team

INDEX_DTYPE = "int64"


class Learner:
    """`framework` is its top module, `mode` how it compiles."""

    def __init__(self, model: Model, framework: Any, mode: Any, params: Params, dtype: str) -> None:
        self.model, self.framework, self.mode, self.dtype = model, framework, mode, dtype
        self.spec, self.layout = model.spec, model.layout
        zeros = {name: np.zeros_like(p) for name, p in params.items()}
        self.flat, self.target, self.m, self.v = (
            framework.shared(self._pack(arrays), borrow=True) for arrays in (params, params, zeros, zeros)
        )
        self.vectors = {"params": self.flat, "target": self.target, "m": self.m, "v": self.v}
        self.weights, self.target_weights = self.layout.views(self.flat), self.layout.views(self.target)
        self.average: Optional[Callable[[np.ndarray], np.ndarray]] = None
        self.t = 0

    def join(self, team: Team) -> None:
        reduce = host.averaging(team.rank, team.size)
        nbytes = self.flat.get_value(borrow=True).nbytes
        self.average = team.timed(reduce, host.MEANS, nbytes)

    def put(self, *arrays: np.ndarray) -> Tuple[np.ndarray, ...]:
        return arrays

    def act(self, obs: np.ndarray, noise: Optional[np.ndarray] = None) -> Tuple[np.ndarray, ...]:
        return tuple(self._host(self._act(obs) if noise is None else self._act(obs, noise)))

    def values(self, obs: np.ndarray) -> Tuple[np.ndarray, ...]:
        return tuple(self._host(self._values(obs)))

    def update(self, batch: contract.Host, lr: float) -> List[np.ndarray]:
        self.t += 1
        step, root = step_scalars(self.spec, self.t, lr)
        scalars = np.array(step, self.dtype), np.array(root, self.dtype)
        if self.average is None:
            return self._update(*batch, *scalars)
        *report, raw = self._gradient(*batch)
        self._step(self.average(raw), *scalars)
        return report

    def read(self, handle: List[np.ndarray]) -> contract.Reading:
        return float(handle[0]), handle[1] if len(handle) > 1 else None

    def sync_target(self) -> None:
        np.copyto(self.target.get_value(borrow=True), self.flat.get_value(borrow=True))

    def drain(self) -> None:
        pass

    def state(self) -> contract.State:
        vectors = self._host([vector.get_value(borrow=True) for vector in self.vectors.values()])
        return {**{key: self.layout.unpack(flat) for key, flat in zip(self.vectors, vectors)}, "t": self.t}

    def load(self, state: contract.State) -> None:
        for key, vector in self.vectors.items():
            vector.set_value(self._pack(state[key]), borrow=True)
        self.t = state["t"]

    def forward(self, obs: np.ndarray, noise: Optional[np.ndarray]) -> Params:
        outputs = self._forward(obs) if noise is None else self._forward(obs, noise)
        return dict(zip((name for name, _, _ in self.spec.network.heads), self._host(outputs)))

    def grads(self, batch: contract.Host) -> Tuple[float, Params, Params]:
        loss, raw, clipped = self._host(self._gradients(*batch))
        return float(loss), self.layout.unpack(raw), self.layout.unpack(clipped)

    # Each function compiles when it is first used: proofs need most of them, training two, in a team three.

    @cached_property
    def _act(self) -> Any:
        inputs = self._acting_inputs()
        return self._function(inputs, choose(self.model, self.weights, *inputs))

    @cached_property
    def _values(self) -> Any:
        inputs = self._acting_inputs()
        return self._function(inputs, [action_values(self.model, self.weights, *inputs)])

    @cached_property
    def _update(self) -> Any:
        inputs = self._batch_inputs()
        report, raw = gradient(self.model, self.weights, self.target_weights, tuple(inputs))
        scalars, updates = self._descent(raw)
        return self._function([*inputs, *scalars], report, updates)

    @cached_property
    def _step(self) -> Any:
        """The second half of `_update`; the first is `_gradient`."""
        averaged = self.model.T.vector("averaged", dtype=self.dtype)
        scalars, updates = self._descent(averaged)
        return self._function([averaged, *scalars], [], updates)

    @cached_property
    def _forward(self) -> Any:
        inputs = self._acting_inputs(network_only=True)
        outputs = forward(self.model, self.weights, *inputs)
        return self._function(inputs, list(outputs.values()))

    @cached_property
    def _gradient(self) -> Any:
        inputs = self._batch_inputs()
        report, raw = gradient(self.model, self.weights, self.target_weights, tuple(inputs))
        return self._function(inputs, [*report, raw])

    @cached_property
    def _gradients(self) -> Any:
        inputs = self._batch_inputs()
        report, raw = gradient(self.model, self.weights, self.target_weights, tuple(inputs))
        return self._function(inputs, [report[0], raw, clip(self.model, raw)])

    def _descent(self, raw: Any) -> Tuple[List[Any], Updates]:
        """Inputs and updates of one step of the optimiser."""
        step, root = (self.model.T.scalar(name, dtype=self.dtype) for name in ("step", "root"))
        clipped = clip(self.model, raw)
        return [step, root], self.model.step(self.model, self.flat, self.m, self.v, clipped, step, root)

    def _function(self, inputs: List[Any], outputs: List[Any], updates: Any = ()) -> Any:
        function = self.framework.function(
            inputs, outputs, updates=updates, mode=self.mode, on_unused_input="ignore"
        )
        function.trust_input = True
        return function

    def _acting_inputs(self, network_only: bool = False) -> List[Any]:
        network, T = self.spec.network, self.model.T
        inputs = [self.model.observation()]
        if network.noisy:
            inputs.append(T.vector("noise", dtype=self.dtype))
        elif network.samples and not network_only:
            inputs.append(T.matrix("noise", dtype=self.dtype))
        return inputs

    def _batch_inputs(self) -> List[Any]:
        T = self.model.T
        kinds = {
            "obs": lambda name: self.model.observation(),
            "next_obs": lambda name: self.model.observation(),
            "action": lambda name: T.vector(name, dtype=INDEX_DTYPE),
            "noise": lambda name: T.matrix(name, dtype=self.dtype),
        }
        fields = self.spec.batch._fields
        return [kinds.get(name, lambda name: T.vector(name, dtype=self.dtype))(name) for name in fields]

    def _host(self, arrays: Sequence[Any]) -> Sequence[np.ndarray]:
        """What a function returned, as host arrays."""
        return arrays

    def _pack(self, arrays: Params) -> np.ndarray:
        """Canonical arrays → one flat vector of its own."""
        return self.layout.pack(arrays).astype(self.dtype)
