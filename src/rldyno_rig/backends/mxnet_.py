"""MXNet: the same functions run op by op on arrays (eager) or as static graphs (hybrid).

All parameters are views of one flat array, and so are the gradients that autograd writes: clipping and Adam
work on one row each. What is computed is in `mxnet_maths`.
Hybrid mode makes the CachedOp that `hybridize(static_alloc=True, static_shape=True)` makes, without the block
around it: a block cannot write its outputs in place, and takes its inputs for arrays that move.
"""

from __future__ import annotations

import functools
import os
from typing import Any, Callable, Dict, List, Optional, Tuple

import mxnet as mx
import numpy as np
from mxnet import autograd

from rldyno_rig.backends import contract
from rldyno_rig.backends.mxnet_maths import (
    OPTIMISERS,
    Model,
    run_choose,
    run_clip,
    run_forward,
    run_loss,
    run_values,
)
from rldyno_rig.backends.mxnet_team import averaging
from rldyno_rig.layout import Layout, outputs_first
from rldyno_rig.reference.losses import support
from rldyno_rig.reference.optimiser import step_scalars
from rldyno_rig.spec import CATEGORICAL, Params, Spec
from rldyno_rig.team.team import Team

MODES = ("eager", "hybrid")
INDEX_DTYPE = "int32"


def facts() -> Dict[str, Any]:
    return {
        "versions": {"mxnet": mx.__version__, "numpy": np.__version__},
        "device": "cpu",
        "threads": os.environ.get("OMP_NUM_THREADS"),
        "engine": os.environ.get("MXNET_ENGINE_TYPE", "ThreadedEnginePerDevice"),
        "onednn": mx.runtime.Features().is_enabled("MKLDNN")
        and os.environ.get("MXNET_MKLDNN_ENABLED") != "0",
        "transfer": "put, into shared memory that the next put of the same shapes fills again",
    }


def make(spec: Spec, params: Params, mode: str, device: str, dtype: str) -> contract.Learner:
    assert mode in MODES
    assert device == "cpu"
    assert os.environ.get("MXNET_ENGINE_TYPE") == "NaiveEngine", "put relies on ops that run when called"
    return Learner(spec, params, mode, dtype)


class Learner:
    def __init__(self, spec: Spec, params: Params, mode: str, dtype: str) -> None:
        self.spec, self.layout = spec, Layout(spec.network, outputs_first)
        self.model = Model(mx.nd if mode == "eager" else mx.sym, spec, dtype)
        self.flat, self.target, self.gradient, self.m, self.v = (Flat(self.layout, dtype) for _ in range(5))
        self.weights, self.target_weights = self.flat.views, self.target.views
        zeros = {name: np.zeros_like(p) for name, p in params.items()}
        self.load({"params": params, "target": params, "m": zeros, "v": zeros, "t": 0})
        autograd.mark_variables(list(self.weights.values()), list(self.gradient.views.values()), "write")
        # When not training, oneDNN rearranges the weights of convolutions in place, which views forbid.
        autograd.set_training(True)

        self.average: Optional[Callable[[Any], Any]] = None
        self._placed: Dict[Tuple[Any, ...], List[Tuple[np.ndarray, Any]]] = {}
        self._host_scalars, scalars = _shared((2, 1), dtype)
        self._one = mx.nd.ones((1, 1), dtype=dtype)
        rows = (self.flat.row, self.m.row, self.v.row, self.gradient.row)
        self._step_inputs = (*rows, scalars[0:1], scalars[1:2], self._one)
        self._step_outputs = [self.flat.row, self.m.row, self.v.row][: 1 if spec.optimiser == "sgd" else 3]
        self._network_inputs = [*_constants(spec, dtype), *self.weights.values()]
        self._loss_inputs = [*self._network_inputs, *self.target_weights.values()]

        self._build = build = functools.partial(_eager if mode == "eager" else _static, self.model)
        network = spec.network
        acting = 1 + (network.noisy or network.samples)
        self._forward = build(run_forward, 1 + network.noisy + len(self._network_inputs))
        self._act = build(run_choose, acting + len(self._network_inputs))
        self._loss = build(run_loss, self.model.batch_size + len(self._loss_inputs))
        self._clip = build(run_clip, 2)
        self._step = build(OPTIMISERS[spec.optimiser], len(self._step_inputs))

    def join(self, team: Team) -> None:
        gradient = self.gradient.array
        reduce, means = averaging(team, gradient)
        self.average = team.timed(reduce, means, gradient.size * np.dtype(gradient.dtype).itemsize)

    def put(self, *arrays: np.ndarray) -> List[Any]:
        # Memory that both sides see: 3 µs for a DQN batch against 60 for new arrays, and graphs stay static.
        key = tuple([(array.shape, array.dtype.char) for array in arrays])
        places = self._placed.get(key)
        if places is None:
            places = self._placed[key] = [_shared(array.shape, array.dtype) for array in arrays]
        for (host, _), array in zip(places, arrays):
            host[...] = array
        return [placed for _, placed in places]

    def act(self, obs: Any, noise: Any = None) -> Tuple[np.ndarray, ...]:
        placed = (obs,) if noise is None else (obs, noise)
        action, *rest = self._act(*placed, *self._network_inputs)
        return (action.asnumpy().astype(INDEX_DTYPE), *[output.asnumpy() for output in rest])

    def values(self, obs: Any) -> Tuple[np.ndarray, ...]:
        return tuple([output.asnumpy() for output in self._values(obs, *self._network_inputs)])

    def update(self, batch: List[Any], lr: float) -> List[Any]:
        report = self._gradient(batch)
        if self.average is not None:
            self.average(self.gradient.array)
        self.t += 1
        step, root = step_scalars(self.spec, self.t, lr)
        eps = 0.0 if self.spec.optimiser == "sgd" else self.model.hyper.adam_eps
        self._host_scalars[:, 0] = step / root, eps / root
        self._step(*self._step_inputs, out=self._step_outputs)
        return report

    def read(self, handle: List[Any]) -> contract.Reading:
        return float(handle[0].asscalar()), handle[1].asnumpy() if len(handle) > 1 else None

    def sync_target(self) -> None:
        self.flat.array.copyto(self.target.array)

    def drain(self) -> None:
        mx.nd.waitall()

    def state(self) -> contract.State:
        return {
            "params": self.flat.unpack(),
            "target": self.target.unpack(),
            "m": self.m.unpack(),
            "v": self.v.unpack(),
            "t": self.t,
        }

    def load(self, state: contract.State) -> None:
        self.flat.pack(state["params"])
        self.target.pack(state["target"])
        self.m.pack(state["m"])
        self.v.pack(state["v"])
        self.t: int = state["t"]

    def forward(self, obs: np.ndarray, noise: Optional[np.ndarray]) -> Params:
        placed = self.put(obs) if noise is None else self.put(obs, noise)
        outputs = self._forward(*placed, *self._network_inputs)
        return {name: y.asnumpy() for (name, _, _), y in zip(self.spec.network.heads, outputs)}

    def grads(self, batch: contract.Host) -> Tuple[float, Params, Params]:
        loss = self.read(self._gradient(self.put(*batch)))[0]
        (clipped,) = self._clip(self.gradient.row, self._one)
        return loss, self.gradient.unpack(), self.layout.unpack(clipped.asnumpy().ravel())

    @functools.cached_property
    def _values(self) -> Callable[..., List[Any]]:
        """Built when it is first used: an agent alone never asks for values."""
        return self._build(run_values, 1 + len(self._network_inputs))

    def _gradient(self, batch: List[Any]) -> List[Any]:
        """Loss and priorities; the gradient is in `self.gradient`."""
        with autograd.record():
            report = self._loss(*batch, *self._loss_inputs)
        autograd.backward(report[:1])
        return report


class Flat:
    """One array with all the parameters in it, and the parameters as views of it."""

    def __init__(self, layout: Layout, dtype: str) -> None:
        self.layout = layout
        self.array = mx.nd.zeros((layout.size,), dtype=dtype)
        self.row = self.array.reshape((1, -1))
        self.views = layout.views(self.array)

    def pack(self, arrays: Params) -> None:
        self.array._sync_copyfrom(self.layout.pack(arrays).astype(self.array.dtype))

    def unpack(self) -> Params:
        return self.layout.unpack(self.array.asnumpy())


def _constants(spec: Spec, dtype: str) -> List[Any]:
    """The points z and their index, for a categorical distribution."""
    if spec.network.support != CATEGORICAL:
        return []
    index = np.arange(spec.network.atoms).reshape(1, -1, 1)
    return [mx.nd.array(support(spec), dtype=dtype), mx.nd.array(index, dtype=dtype)]


def _shared(shape: Tuple[int, ...], dtype: Any) -> Tuple[np.ndarray, Any]:
    """The same memory as a NumPy array to write to and as an MXNet array."""
    host = np.zeros(shape, dtype)
    writable = host[...]
    return writable, mx.nd.from_numpy(host, zero_copy=True)


def _eager(model: Model, function: Callable[..., List[Any]], count: int) -> Callable[..., List[Any]]:
    return functools.partial(function, model)


def _static(model: Model, function: Callable[..., List[Any]], count: int) -> Callable[..., List[Any]]:
    """The function as one graph whose inputs, memory and ops all stay where they are between calls."""
    graph = mx.sym.Group(function(model, *[mx.sym.var(str(i)) for i in range(count)]))
    used = [int(name) for name in graph.list_inputs()]
    flags: List[Tuple[str, Any]] = [("static_alloc", True), ("static_shape", True)]
    flags += [("data_indices", []), ("param_indices", list(range(len(used))))]
    op = mx.nd.CachedOp(graph, flags)

    def call(*arrays: Any, out: Optional[List[Any]] = None) -> List[Any]:
        outputs = op(*[arrays[i] for i in used], out=out)
        return outputs if isinstance(outputs, list) else [outputs]

    return call
