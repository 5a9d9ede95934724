"""MXNet: the same functions run op by op on arrays (eager) or as static graphs (hybrid).

All parameters are views of one flat array, and so are the gradients that autograd writes: clipping and Adam
work on one row each. What is computed is in `mxnet_maths`.
Hybrid mode makes the CachedOp that `hybridize(static_alloc=True, static_shape=True)` makes, without the block
around it: a block cannot write its outputs in place, and takes its inputs for arrays that move.
"""

from __future__ import annotations

import math
import os
from typing import Any, Callable, Dict, List, Optional, Tuple

import mxnet as mx
import numpy as np
from mxnet import autograd

from rldyno_rig.backends.mxnet_maths import Maths
from rldyno_rig.batches import BATCHES
from rldyno_rig.reference.losses import support
from rldyno_rig.reference.optimiser import step_scalars
from rldyno_rig.spec import Params, Spec

MODES = ("eager", "hybrid")
INDEX_DTYPE = "int32"


def facts() -> Dict[str, Any]:
    return {
        "versions": {"mxnet": mx.__version__, "numpy": np.__version__},
        "device": "cpu",
        "threads": os.environ.get("OMP_NUM_THREADS"),
        "engine": os.environ.get("MXNET_ENGINE_TYPE", "ThreadedEnginePerDevice"),
        "onednn": mx.runtime.Features().is_enabled("MKLDNN"),
        "transfer": "put, into shared memory that the next put of the same shapes fills again",
    }


def make(spec: Spec, params: Params, mode: str, device: str, dtype: str) -> Learner:
    assert mode in MODES
    assert device == "cpu"
    assert os.environ.get("MXNET_ENGINE_TYPE") == "NaiveEngine", "put relies on ops that run when called"
    return Learner(spec, params, mode, dtype)


class Learner:
    def __init__(self, spec: Spec, params: Params, mode: str, dtype: str) -> None:
        self.spec = spec
        self.weights, self.target, self.gradient, self.m, self.v = (Flat(params, dtype) for _ in range(5))
        zeros = {name: np.zeros_like(p) for name, p in params.items()}
        self.load({"params": params, "target": params, "m": zeros, "v": zeros, "t": 0})
        autograd.mark_variables(self.weights.views, self.gradient.views, "write")
        # When not training, oneDNN rearranges the weights of convolutions in place, which views forbid.
        autograd.set_training(True)

        self._placed: Dict[tuple, List[Tuple[np.ndarray, Any]]] = {}
        self._host_scalars, scalars = _shared((2, 1), dtype)
        self._one = mx.nd.ones((1, 1), dtype=dtype)
        rows = (self.weights.row, self.gradient.row, self.m.row, self.v.row)
        self._step_inputs = (*rows, scalars[0:1], scalars[1:2], self._one)
        self._step_outputs = [self.weights.row, self.m.row, self.v.row][: 1 if spec.optimiser == "sgd" else 3]
        constants = _constants(spec, dtype)
        self._network_inputs = [*constants, *self.weights.views]
        self._loss_inputs = [*constants, *self.weights.views, *self.target.views]

        maths = Maths(mx.nd if mode == "eager" else mx.sym, spec, params, dtype)
        build = _eager if mode == "eager" else _static
        acting = 1 + (spec.network.noisy or spec.network.head == "actor_critic")
        placed = len(BATCHES[spec.algorithm]._fields)
        self._heads = build(maths.heads, 1 + spec.network.noisy + len(self._network_inputs))
        self._choose = build(maths.choose, acting + len(self._network_inputs))
        self._loss = build(maths.loss, placed + len(self._loss_inputs))
        self._clipped = build(maths.clipped, 2)
        self._step = build(getattr(maths, spec.optimiser), len(self._step_inputs))

    def put(self, *arrays: np.ndarray) -> List[Any]:
        # Memory that both sides see: 3 µs for a DQN batch against 60 for new arrays, and graphs stay static.
        key = tuple([array.shape for array in arrays])
        places = self._placed.get(key)
        if places is None:
            places = self._placed[key] = [_shared(array.shape, array.dtype) for array in arrays]
        for (host, _), array in zip(places, arrays):
            host[...] = array
        return [placed for _, placed in places]

    def act(self, obs: Any, noise: Any = None) -> Tuple[np.ndarray, ...]:
        placed = (obs,) if noise is None else (obs, noise)
        action, *rest = self._choose(*placed, *self._network_inputs)
        return (action.asnumpy().astype(INDEX_DTYPE), *[output.asnumpy() for output in rest])

    def update(self, batch: List[Any], lr: float) -> List[Any]:
        outputs = self._gradients(batch)
        self.t += 1
        step, root = step_scalars(self.spec, self.t, lr)
        eps = 0.0 if self.spec.optimiser == "sgd" else self.spec.hyper.adam_eps
        self._host_scalars[:, 0] = step / root, eps / root
        self._step(*self._step_inputs, out=self._step_outputs)
        return outputs

    def read(self, handle: List[Any]) -> Tuple[float, Optional[np.ndarray]]:
        return float(handle[0].asscalar()), handle[1].asnumpy() if len(handle) > 1 else None

    def sync_target(self) -> None:
        self.weights.array.copyto(self.target.array)

    def drain(self) -> None:
        mx.nd.waitall()

    def state(self) -> Dict[str, Any]:
        return {
            "params": self.weights.read(),
            "target": self.target.read(),
            "m": self.m.read(),
            "v": self.v.read(),
            "t": self.t,
        }

    def load(self, state: Dict[str, Any]) -> None:
        self.weights.fill(state["params"])
        self.target.fill(state["target"])
        self.m.fill(state["m"])
        self.v.fill(state["v"])
        self.t = state["t"]

    def forward(self, obs: np.ndarray, noise: Optional[np.ndarray]) -> Dict[str, np.ndarray]:
        placed = self.put(obs) if noise is None else self.put(obs, noise)
        outputs = self._heads(*placed, *self._network_inputs)
        return {name: y.asnumpy() for (name, _, _), y in zip(self.spec.network.heads, outputs)}

    def grads(self, batch: tuple) -> Tuple[float, Params, Params]:
        loss = self.read(self._gradients(self.put(*batch)))[0]
        (clipped,) = self._clipped(self.gradient.row, self._one)
        return loss, self.gradient.read(), self.gradient.split(clipped.asnumpy())

    def _gradients(self, batch: List[Any]) -> List[Any]:
        with autograd.record():
            outputs = self._loss(*batch, *self._loss_inputs)
        autograd.backward(outputs[:1])
        return outputs


class Flat:
    """One array with all the parameters in it, in MXNet's layouts, and the parameters as views of it."""

    def __init__(self, params: Params, dtype: str) -> None:
        self.shapes = {name: _native(p).shape for name, p in params.items()}
        self.array = mx.nd.zeros((sum(p.size for p in params.values()),), dtype=dtype)
        self.row = self.array.reshape((1, -1))
        self.views = []
        start = 0
        for shape in self.shapes.values():
            size = math.prod(shape)
            self.views.append(self.array[start : start + size].reshape(shape))
            start += size

    def fill(self, params: Params) -> None:
        flat = np.concatenate([_native(params[name]).ravel() for name in self.shapes])
        self.array._sync_copyfrom(flat.astype(self.array.dtype))

    def read(self) -> Params:
        return self.split(self.array.asnumpy())

    def split(self, flat: np.ndarray) -> Params:
        bounds = np.cumsum([math.prod(shape) for shape in self.shapes.values()])[:-1]
        parts = np.split(flat.ravel(), bounds)
        return {n: _canonical(p.reshape(shape)) for p, (n, shape) in zip(parts, self.shapes.items())}


def _constants(spec: Spec, dtype: str) -> List[Any]:
    """The support and the index of its atoms, for distributional networks."""
    if spec.network.atoms == 1:
        return []
    index = np.arange(spec.network.atoms).reshape(1, -1, 1)
    return [mx.nd.array(support(spec), dtype=dtype), mx.nd.array(index, dtype=dtype)]


def _shared(shape: Tuple[int, ...], dtype: Any) -> Tuple[np.ndarray, Any]:
    """The same memory as a NumPy array to write to and as an MXNet array."""
    host = np.zeros(shape, dtype)
    writable = host[...]
    return writable, mx.nd.from_numpy(host, zero_copy=True)


def _eager(function: Callable[..., List[Any]], count: int) -> Callable[..., List[Any]]:
    return function


def _static(function: Callable[..., List[Any]], count: int) -> Callable[..., List[Any]]:
    """The function as one graph whose inputs, memory and ops all stay where they are between calls."""
    graph = mx.sym.Group(function(*[mx.sym.var(str(i)) for i in range(count)]))
    used = [int(name) for name in graph.list_inputs()]
    flags = [("static_alloc", True), ("static_shape", True)]
    flags += [("data_indices", []), ("param_indices", list(range(len(used))))]
    op = mx.nd.CachedOp(graph, flags)

    def call(*arrays: Any, out: Optional[List[Any]] = None) -> List[Any]:
        outputs = op(*[arrays[i] for i in used], out=out)
        return outputs if isinstance(outputs, list) else [outputs]

    return call


def _native(array: np.ndarray) -> np.ndarray:
    """Convolutions HWIO → OIHW, dense [in, out] → [out, in]."""
    return array.transpose(3, 2, 0, 1) if array.ndim == 4 else array.T


def _canonical(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array.transpose(2, 3, 1, 0) if array.ndim == 4 else array.T)
