"""TensorFlow 2: raw ops, variables and GradientTape.

Not Keras: its layers go through a dispatch layer, and its Adam adds ε before the bias correction.
The parameters live in one flat vector, so that gradients are one vector too and the optimiser is one kernel;
the network reads per-layer copies, which reading does not copy again. What is computed is in
`tensorflow_maths`.
"""

from __future__ import annotations

import dataclasses
import os
from typing import Any, Callable, Dict, Optional, Sequence, Tuple

import numpy as np
import tensorflow as tf

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
        "transfer": "put",
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
    def __init__(self, spec: Spec, params: Params, mode: str, dtype: str) -> None:
        self.spec, self.model = spec, Model(spec, dtype)
        self.layout, self.dtype = self.model.layout, self.model.dtype
        self.flat, self.m, self.v = (tf.Variable(tf.zeros(self.layout.size, dtype)) for _ in range(3))
        self.eager = mode == "eager"
        self.weights, self.target_weights = (
            {name: tf.Variable(tf.zeros(shape, dtype)) for name, shape in self.layout.shapes.items()}
            for _ in range(2)
        )
        # The kernel computes 1 − β in the parameters' precision: 1 − 0.999 is off by 1e-5 in float32. So it
        # is Adam with the rounded β, and gets the bias corrections of those.
        self.adam = spec.optimiser == "adam"
        self.rounded: Any = self.adam and dataclasses.replace(
            self.model.hyper,
            adam_beta1=float(self.dtype.type(self.model.hyper.adam_beta1)),
            adam_beta2=float(self.dtype.type(self.model.hyper.adam_beta2)),
        )
        self._act = _callable(self._choose, mode)
        self._update = _callable(self._descend, mode)
        self._forward = _callable(self._heads, mode)
        self._gradients = _callable(self._gradient_and_clipped, mode)
        zeros = {name: np.zeros_like(p) for name, p in params.items()}
        self.load({"params": params, "target": params, "m": zeros, "v": zeros, "t": 0})

    def put(self, *arrays: np.ndarray) -> Tuple[Any, ...]:
        return tuple([tf.constant(array) for array in arrays])

    def act(self, obs: Any, noise: Any = None) -> Tuple[np.ndarray, ...]:
        outputs = self._act(obs) if noise is None else self._act(obs, noise)
        return tuple([output.numpy() for output in outputs])

    def update(self, batch: Tuple[Any, ...], lr: float) -> Any:
        self.t += 1
        if not self.adam:
            return self._update(*batch, tf.constant(lr, self.dtype), self.model.zero)
        step, root = adam_scalars(self.rounded, self.t, lr)
        return self._update(
            *batch,
            tf.constant(step / root, self.dtype),
            tf.constant(self.model.hyper.adam_eps / root, self.dtype),
        )

    def read(self, handle: Any) -> contract.Reading:
        return float(handle[0]), handle[1].numpy() if len(handle) > 1 else None

    def sync_target(self) -> None:
        self.target_weights = self._split(self.flat, self.target_weights)

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
        self.weights = self._split(self.flat, self.weights)
        self.target_weights = self._split(self._pack(state["target"]), self.target_weights)

    def forward(self, obs: np.ndarray, noise: Optional[np.ndarray]) -> Params:
        outputs = self._forward(*self.put(obs) if noise is None else self.put(obs, noise))
        names = [name for name, _, _ in self.spec.network.heads]
        return {name: output.numpy() for name, output in zip(names, outputs)}

    def grads(self, batch: contract.Host) -> Tuple[float, Params, Params]:
        raw, clipped, loss = self._gradients(*self.put(*batch))[:3]
        return float(loss), self.layout.unpack(raw.numpy()), self.layout.unpack(clipped.numpy())

    def _choose(self, obs: Any, noise: Any = None) -> Tuple[Any, ...]:
        return choose(self.model, self.weights, obs, noise)

    def _descend(self, *args: Any) -> Tuple[Any, ...]:
        *batch, step, eps = args
        report, raw = gradient(self.model, self.weights, self.target_weights, tuple(batch))
        # Data-parallel workers average `raw` here.
        self.model.step(self.model, self.flat, self.m, self.v, clip(self.model, raw), step, eps)
        self.weights = self._split(self.flat, self.weights)
        return report

    def _heads(self, obs: Any, noise: Any = None) -> Tuple[Any, ...]:
        return tuple(forward(self.model, self.weights, obs, noise).values())

    def _gradient_and_clipped(self, *batch: Any) -> Tuple[Any, ...]:
        report, raw = gradient(self.model, self.weights, self.target_weights, batch)
        return (raw, clip(self.model, raw), *report)

    def _split(self, flat: Any, weights: Tensors) -> Tensors:
        """`weights` := the parts of a flat vector; in eager mode plain tensors, which need no reading."""
        parts = named(self.model, flat)
        if self.eager:
            return parts
        for name, part in parts.items():
            weights[name].assign(part, read_value=False)
        return weights

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


def _callable(body: Callable[..., Tuple[Any, ...]], mode: str) -> Callable[..., Sequence[Any]]:
    """`body` as it is, or traced once for each number of rows (one, in a run)."""
    if mode == "eager":
        return body
    traced: Dict[int, Callable[..., Sequence[Any]]] = {}

    def call(*args: Any) -> Sequence[Any]:
        rows = args[0].shape[0]
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
    run = tf.raw_ops.StatefulPartitionedCall
    return lambda *tensors: run(args=[*tensors, *captured], Tout=dtypes, f=graph)
