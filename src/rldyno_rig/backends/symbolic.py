"""Learners of Theano and PyTensor: graphs of a few functions, each compiled when it is first used.

Parameters, moments and gradients are each one flat shared vector that the graphs see through views: Adam is
one to three fused kernels instead of as many per parameter, and one buffer holds the whole gradient.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any, Dict, List, Optional, Tuple

import numpy as np

from rldyno_rig.backends.symbolic_maths import Maths, Symbols
from rldyno_rig.batches import BATCHES
from rldyno_rig.reference.optimiser import step_scalars
from rldyno_rig.spec import Params, parameter_shapes

INDEX_DTYPE = "int64"


class Learner:
    """`framework` is its top module, `mode` how it compiles."""

    def __init__(self, maths: Maths, framework: Any, mode: Any, params: Params, dtype: str) -> None:
        self.maths, self.framework, self.mode, self.dtype = maths, framework, mode, dtype
        self.spec, self.layout = maths.spec, maths.layout()
        self.order = np.concatenate([positions.ravel() for positions in self.layout.values()])
        zeros = {name: np.zeros_like(p) for name, p in params.items()}
        self.params, self.target, self.m, self.v = (
            framework.shared(self._flat(arrays), borrow=True) for arrays in (params, params, zeros, zeros)
        )
        self.vectors = {"params": self.params, "target": self.target, "m": self.m, "v": self.v}
        self.t = 0

    def put(self, *arrays: np.ndarray) -> Tuple[np.ndarray, ...]:
        return arrays

    def act(self, obs: np.ndarray, noise: Optional[np.ndarray] = None) -> Tuple[np.ndarray, ...]:
        return tuple(self._act(obs) if noise is None else self._act(obs, noise))

    def update(self, batch: tuple, lr: float) -> List[np.ndarray]:
        self.t += 1
        step, root = step_scalars(self.spec, self.t, lr)
        return self._update(*batch, np.array(step, self.dtype), np.array(root, self.dtype))

    def read(self, handle: List[np.ndarray]) -> Tuple[float, Optional[np.ndarray]]:
        return float(handle[0]), handle[1] if len(handle) > 1 else None

    def sync_target(self) -> None:
        np.copyto(self.target.get_value(borrow=True), self.params.get_value(borrow=True))

    def drain(self) -> None:
        pass

    def state(self) -> Dict[str, Any]:
        host = {key: vector.get_value(borrow=True) for key, vector in self.vectors.items()}
        return {**{key: self._canonical(flat) for key, flat in host.items()}, "t": self.t}

    def load(self, state: Dict[str, Any]) -> None:
        for key, vector in self.vectors.items():
            vector.set_value(self._flat(state[key]), borrow=True)
        self.t = state["t"]

    def forward(self, obs: np.ndarray, noise: Optional[np.ndarray]) -> Params:
        outputs = self._forward(obs) if noise is None else self._forward(obs, noise)
        return dict(zip((name for name, _, _ in self.spec.network.heads), outputs))

    def grads(self, batch: tuple) -> Tuple[float, Params, Params]:
        loss, raw, clipped = self._grads(*batch)
        return float(loss), self._canonical(raw), self._canonical(clipped)

    # Each function compiles when it is first used: proofs need all of them, training only two.

    @cached_property
    def _act(self) -> Any:
        inputs = self._acting_inputs()
        obs, noise = (*inputs, None)[:2]
        on_network = noise if self.spec.network.noisy else None
        outputs = self.maths.forward(self._views(self.params), obs, on_network)
        return self._function(inputs, self.maths.choose(outputs, noise))

    @cached_property
    def _update(self) -> Any:
        inputs = self._batch_inputs()
        loss, priorities, gradient = self._loss_and_gradient(inputs)
        clipped = self.maths.clip(gradient)
        step, root = (self.maths.T.scalar(name, dtype=self.dtype) for name in ("step", "root"))
        if self.spec.optimiser == "sgd":
            updates = [(self.params, self.params - step * clipped)]
        else:
            updates = self.maths.adam(self.params, self.m, self.v, clipped, step, root)
        return self._function([*inputs, step, root], [loss, *priorities], updates)

    @cached_property
    def _forward(self) -> Any:
        inputs = self._acting_inputs(network_only=True)
        outputs = self.maths.forward(self._views(self.params), *inputs)
        return self._function(inputs, list(outputs.values()))

    @cached_property
    def _grads(self) -> Any:
        inputs = self._batch_inputs()
        loss, _, gradient = self._loss_and_gradient(inputs)
        return self._function(inputs, [loss, gradient, self.maths.clip(gradient)])

    def _loss_and_gradient(self, inputs: List[Any]) -> Tuple[Any, List[Any], Any]:
        params, batch = self._views(self.params), BATCHES[self.spec.algorithm](*inputs)
        loss, priorities = self.maths.loss(params, self._views(self.target), batch)
        gradients = self.maths.T.grad(loss, list(params.values()))
        return loss, priorities, self.maths.T.concatenate([g.flatten() for g in gradients])

    def _function(self, inputs: List[Any], outputs: List[Any], updates: Any = ()) -> Any:
        function = self.framework.function(
            inputs, outputs, updates=updates, mode=self.mode, on_unused_input="ignore"
        )
        function.trust_input = True
        return function

    def _acting_inputs(self, network_only: bool = False) -> List[Any]:
        network, T = self.spec.network, self.maths.T
        inputs = [self.maths.observation()]
        if network.noisy:
            inputs.append(T.vector("noise", dtype=self.dtype))
        elif network.head == "actor_critic" and not network_only:
            inputs.append(T.matrix("noise", dtype=self.dtype))
        return inputs

    def _batch_inputs(self) -> List[Any]:
        T = self.maths.T
        kinds = {
            "obs": lambda name: self.maths.observation(),
            "next_obs": lambda name: self.maths.observation(),
            "action": lambda name: T.vector(name, dtype=INDEX_DTYPE),
            "noise": lambda name: T.matrix(name, dtype=self.dtype),
        }
        fields = BATCHES[self.spec.algorithm]._fields
        return [kinds.get(name, lambda name: T.vector(name, dtype=self.dtype))(name) for name in fields]

    def _views(self, flat: Any) -> Symbols:
        views, start = {}, 0
        for name, positions in self.layout.items():
            views[name] = flat[start : start + positions.size].reshape(positions.shape)
            start += positions.size
        return views

    def _flat(self, arrays: Params) -> np.ndarray:
        return np.concatenate([array.ravel() for array in arrays.values()])[self.order].astype(self.dtype)

    def _canonical(self, flat: np.ndarray) -> Params:
        canonical = np.empty_like(flat)
        canonical[self.order] = flat
        shapes = parameter_shapes(self.spec.network)
        ends = np.cumsum([math.prod(shape) for shape in shapes.values()])
        parts = np.split(canonical, ends[:-1])
        return {name: part.reshape(shapes[name]) for name, part in zip(shapes, parts)}
