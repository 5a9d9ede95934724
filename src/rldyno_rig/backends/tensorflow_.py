"""TensorFlow 2: raw ops, variables and GradientTape.

Not Keras: its layers go through a dispatch layer, and its Adam adds ε before the bias correction.
The parameters live in one flat vector, so that gradients are one vector too and the optimiser is one kernel.
The network gets its parts as plain tensors, which every update returns anew: an argument costs a graph less
than a variable that it reads (act, batch 1: 26 µs against 30). What is computed is in `tensorflow_maths`.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

import numpy as np
import tensorflow as tf
from tensorflow.python import pywrap_tfe
from tensorflow.python.eager import context as eager_context

from rldyno_rig.backends import contract
from rldyno_rig.backends.tensorflow_maths import (
    Model,
    Tensors,
    choose,
    clip,
    forward,
    gradient,
    named,
)
from rldyno_rig.reference.optimiser import adam_scalars
from rldyno_rig.spec import STORED, Params, Spec

MODES = ("eager", "graph", "xla")
INDEX_DTYPE = "int64"
_ALIGNMENT = 64

# TensorFlow fixes the size of its pools at the first operation.
_THREADS = int(os.environ.get("OMP_NUM_THREADS", "0"))
tf.config.threading.set_intra_op_parallelism_threads(int(os.environ.get("TF_NUM_INTRAOP_THREADS", _THREADS)))
tf.config.threading.set_inter_op_parallelism_threads(int(os.environ.get("TF_NUM_INTEROP_THREADS", _THREADS)))


def facts() -> Dict[str, Any]:
    gpus = tf.config.get_visible_devices("GPU")
    details = tf.config.experimental.get_device_details(gpus[0]) if gpus else {}
    return {
        "versions": {"tensorflow": tf.__version__},
        "device": details.get("device_name", "cuda") if gpus else "cpu",
        "threads": {
            "intra_op": tf.config.threading.get_intra_op_parallelism_threads(),
            "inter_op": tf.config.threading.get_inter_op_parallelism_threads(),
        },
        "tf32": tf.config.experimental.tensor_float_32_execution_enabled(),
        "onednn": os.environ.get("TF_ENABLE_ONEDNN_OPTS", "default"),
        "transfer": "put; on a CPU into shared memory that the second put of the same shapes fills again",
    }


def make(spec: Spec, params: Params, mode: str, device: str, dtype: str) -> contract.Learner:
    assert mode in MODES
    tf.config.experimental.enable_tensor_float_32_execution(dtype == "tf32")
    gpus = tf.config.list_physical_devices("GPU")
    if device == "cpu":
        tf.config.set_visible_devices([], "GPU")
    else:
        assert gpus, "TensorFlow sees no GPU"
        for gpu in gpus:
            tf.config.experimental.set_memory_growth(gpu, True)
    return Learner(spec, params, mode, STORED[dtype])


def device_memory() -> Optional[Dict[str, int]]:
    """Bytes on the GPU: in use now, at the peak. TensorFlow does not say what its pool has reserved."""
    if not tf.config.get_visible_devices("GPU"):
        return None
    info = tf.config.experimental.get_memory_info("GPU:0")
    return {"used_bytes": info["current"], "used_peak_bytes": info["peak"]}


class Learner:
    weights: Tensors
    target_weights: Tensors

    def __init__(self, spec: Spec, params: Params, mode: str, dtype: str) -> None:
        self.spec, self.model = spec, Model(spec, dtype)
        self.layout, self.dtype = self.model.layout, self.model.dtype
        self.flat, self.m, self.v = (tf.Variable(tf.zeros(self.layout.size, dtype)) for _ in range(3))
        self.names = tuple(self.layout.shapes)
        # The kernel computes 1 − β in the parameters' precision: 1 − 0.999 is off by 1e-5 in float32. So it
        # is Adam with the rounded β, and gets the bias corrections of those.
        self.adam = spec.optimiser == "adam"
        self.rounded: Any = self.adam and dataclasses.replace(
            self.model.hyper,
            adam_beta1=float(self.dtype.type(self.model.hyper.adam_beta1)),
            adam_beta2=float(self.dtype.type(self.model.hyper.adam_beta2)),
        )
        on_gpu = bool(tf.config.get_visible_devices("GPU"))
        self._place: Callable[..., Sequence[Any]] = _constants if on_gpu else Stage().put
        self._scalars = np.zeros((2,), dtype)
        self._act = _callable(self._choose, mode)
        self._update = _callable(self._descend, mode)
        self._forward = _callable(self._heads, mode)
        self._gradients = _callable(self._gradient_and_clipped, mode)
        zeros = {name: np.zeros_like(p) for name, p in params.items()}
        self.load({"params": params, "target": params, "m": zeros, "v": zeros, "t": 0})

    def put(self, *arrays: np.ndarray) -> Sequence[Any]:
        return self._place(*arrays)

    def act(self, obs: Any, noise: Any = None) -> Tuple[np.ndarray, ...]:
        placed = (obs,) if noise is None else (obs, noise)
        return tuple([output.numpy() for output in self._act(*placed, *self.weights.values())])

    def update(self, batch: Tuple[Any, ...], lr: float) -> Any:
        self.t += 1
        scalars = (lr, 0.0)
        if self.adam:
            step, root = adam_scalars(self.rounded, self.t, lr)
            scalars = (step / root, self.model.hyper.adam_eps / root)
        self._scalars[:] = scalars
        weights = (*self.weights.values(), *self.target_weights.values())
        outputs = self._update(*batch, *self.put(*self._scalars), *weights)
        self.weights = dict(zip(self.names, outputs))
        return outputs[len(self.names) :]

    def read(self, handle: Any) -> contract.Reading:
        return float(handle[0]), handle[1].numpy() if len(handle) > 1 else None

    def sync_target(self) -> None:
        self.target_weights = self.weights

    def drain(self) -> None:
        if tf.config.get_visible_devices("GPU"):
            tf.test.experimental.sync_devices()

    def state(self) -> contract.State:
        m_scale, v_scale = self._moment_scales()
        return {
            "params": self.layout.unpack(self.flat.numpy()),
            "target": self.layout.unpack(
                np.concatenate([w.numpy().ravel() for w in self.target_weights.values()])
            ),
            "m": self.layout.unpack(self.m.numpy() * self.dtype.type(m_scale)),
            "v": self.layout.unpack(self.v.numpy() * self.dtype.type(v_scale)),
            "t": self.t,
        }

    def load(self, state: contract.State) -> None:
        self.t: int = state["t"]
        m_scale, v_scale = self._moment_scales()
        self.flat.assign(self._pack(state["params"]))
        self.m.assign(self._pack(state["m"]) / self.dtype.type(m_scale))
        self.v.assign(self._pack(state["v"]) / self.dtype.type(v_scale))
        self.weights = named(self.model, self.flat)
        self.target_weights = named(self.model, self._pack(state["target"]))

    def forward(self, obs: np.ndarray, noise: Optional[np.ndarray]) -> Params:
        placed = self.put(obs) if noise is None else self.put(obs, noise)
        outputs = self._forward(*placed, *self.weights.values())
        names = [name for name, _, _ in self.spec.network.heads]
        return {name: output.numpy() for name, output in zip(names, outputs)}

    def grads(self, batch: contract.Host) -> Tuple[float, Params, Params]:
        weights = (*self.weights.values(), *self.target_weights.values())
        raw, clipped, loss = self._gradients(*self.put(*batch), *weights)[:3]
        return float(loss), self.layout.unpack(raw.numpy()), self.layout.unpack(clipped.numpy())

    # What is traced. Arguments: placed arrays, then the weights that are used.

    def _choose(self, *args: Any) -> Tuple[Any, ...]:
        placed, weights = self._named(args, 1)
        return choose(self.model, weights[0], *placed)

    def _descend(self, *args: Any) -> Tuple[Any, ...]:
        (*batch, step, eps), (weights, target) = self._named(args, 2)
        report, raw = gradient(self.model, weights, target, tuple(batch))
        # Data-parallel workers average `raw` here.
        self.model.step(self.model, self.flat, self.m, self.v, clip(self.model, raw), step, eps)
        return (*named(self.model, self.flat).values(), *report)

    def _heads(self, *args: Any) -> Tuple[Any, ...]:
        placed, weights = self._named(args, 1)
        return tuple(forward(self.model, weights[0], *placed).values())

    def _gradient_and_clipped(self, *args: Any) -> Tuple[Any, ...]:
        batch, (weights, target) = self._named(args, 2)
        report, raw = gradient(self.model, weights, target, batch)
        return (raw, clip(self.model, raw), *report)

    def _named(self, args: Tuple[Any, ...], networks: int) -> Tuple[Tuple[Any, ...], List[Tensors]]:
        """Placed arrays, and the weights of so many networks by their names."""
        size = len(self.names)
        start = len(args) - networks * size
        parts = [args[start + i * size : start + (i + 1) * size] for i in range(networks)]
        return args[:start], [dict(zip(self.names, part)) for part in parts]

    def _pack(self, arrays: Params) -> np.ndarray:
        """Canonical arrays → one flat vector on the host."""
        return self.layout.pack(arrays).astype(self.dtype)

    def _moment_scales(self) -> Tuple[float, float]:
        """What turns moments under the rounded β into those under β; 1 in float64."""
        if not self.adam:
            return 1.0, 1.0
        hyper, t = self.model.hyper, max(self.t, 1)
        return (
            (1 - hyper.adam_beta1**t) / (1 - self.rounded.adam_beta1**t),
            (1 - hyper.adam_beta2**t) / (1 - self.rounded.adam_beta2**t),
        )


class Stage:
    """Memory that NumPy writes and TensorFlow reads: a copy takes 0.3 µs, `tf.constant` 14.

    Of the same shapes there are two places in turn: a batch stays what it is until the second `put` after it.
    """

    def __init__(self) -> None:
        self.places: Dict[Tuple[Any, ...], Iterator[Tuple[List[np.ndarray], List[Any]]]] = {}

    def put(self, *arrays: np.ndarray) -> Sequence[Any]:
        key = tuple([array.shape for array in arrays])
        places = self.places.get(key)
        if places is None:
            places = self.places[key] = itertools.cycle([_shared(arrays), _shared(arrays)])
        hosts, tensors = next(places)
        for host, array in zip(hosts, arrays):
            host[...] = array
        return tensors


def _shared(like: Sequence[Any]) -> Tuple[List[np.ndarray], List[Any]]:
    """The same memory as NumPy arrays to write to and as tensors."""
    hosts = [_aligned(array.shape, array.dtype) for array in like]
    return hosts, [tf.experimental.dlpack.from_dlpack(host.__dlpack__()) for host in hosts]


def _aligned(shape: Tuple[int, ...], dtype: Any) -> np.ndarray:
    """TensorFlow ends the process when memory that it is given does not begin at a multiple of 64 bytes."""
    size = int(np.prod(shape, dtype=int)) * np.dtype(dtype).itemsize
    block = np.zeros(size + _ALIGNMENT, np.uint8)
    start = -block.ctypes.data % _ALIGNMENT
    return block[start : start + size].view(dtype).reshape(shape)


def _constants(*arrays: np.ndarray) -> Sequence[Any]:
    return [tf.constant(array) for array in arrays]


def _callable(body: Callable[..., Tuple[Any, ...]], mode: str) -> Callable[..., Sequence[Any]]:
    """`body` as it is, or traced once for each number of rows (one, in a run)."""
    if mode == "eager":
        return body
    traced: Dict[int, Callable[..., Sequence[Any]]] = {}

    def call(*args: Any) -> Sequence[Any]:
        rows = len(args[0])
        if rows not in traced:
            traced[rows] = _trace(body, args, mode)
        return traced[rows](*args)

    return call


def _trace(
    body: Callable[..., Tuple[Any, ...]], args: Tuple[Any, ...], mode: str
) -> Callable[..., Sequence[Any]]:
    """The concrete function of `body`, called as the operation it is.

    Calling it as a Python function binds and flattens its signature each time: 130 µs against 16. The
    operation ignores jit_compile of the function it is given, so the compiled one is called from within.
    """
    inner = tf.function(body, jit_compile=True, autograph=False) if mode == "xla" else body
    signature = [tf.TensorSpec(arg.shape, arg.dtype) for arg in args]

    @tf.function(input_signature=signature, autograph=False)
    def outer(*tensors: Any) -> Tuple[Any, ...]:
        return inner(*tensors)

    graph = outer.get_concrete_function()
    captured, dtypes = graph.captured_inputs, [output.dtype for output in graph.outputs]
    # tf.raw_ops checks and names the same arguments again: 2 µs.
    run, context = pywrap_tfe.TFE_Py_FastPathExecute, eager_context.context()

    def call(*tensors: Any) -> Sequence[Any]:
        outputs: Sequence[Any] = run(
            context, "StatefulPartitionedCall", None, [*tensors, *captured], "Tout", dtypes, "f", graph
        )
        return outputs

    return call
