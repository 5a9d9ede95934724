"""TensorFlow 2: raw ops, variables and GradientTape.

Not Keras: its layers go through a dispatch layer, and its Adam adds ε before the bias correction.
The parameters live in one flat vector, so that gradients are one vector too and the optimiser is one kernel;
the network reads per-layer copies, which reading does not copy again. What is computed is in
`tensorflow_maths`.
"""

from __future__ import annotations

import dataclasses
import math
import os
from typing import Any, Callable, Dict, Optional, Sequence, Tuple

import numpy as np
import tensorflow as tf

from rldyno_rig.backends.tensorflow_maths import (
    GOALS,
    LOSSES,
    Tensors,
    follows_convolution,
    forward,
    no_goal,
    pick,
    q_values,
)
from rldyno_rig.batches import BATCHES
from rldyno_rig.reference.losses import support
from rldyno_rig.reference.optimiser import adam_scalars
from rldyno_rig.spec import (
    STORED,
    Params,
    Spec,
    convolution_outputs,
    parameter_shapes,
)

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


def make(spec: Spec, params: Params, mode: str, device: str, dtype: str) -> Learner:
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
    """Bytes on the GPU: in use now, at the peak. TensorFlow does not tell what its pool has reserved."""
    if not tf.config.get_visible_devices("GPU"):
        return None
    info = tf.config.experimental.get_memory_info("GPU:0")
    return {"used_bytes": info["current"], "used_peak_bytes": info["peak"]}


class Learner:
    def __init__(self, spec: Spec, params: Params, mode: str, dtype: str) -> None:
        self.spec = spec
        self.dtype = np.dtype(dtype)
        self.shapes = parameter_shapes(spec.network)
        size = sum(math.prod(shape) for shape in self.shapes.values())
        self.flat, self.m, self.v = (tf.Variable(tf.zeros(size, dtype)) for _ in range(3))
        self.eager = mode == "eager"
        self.weights, self.target = (
            {name: tf.Variable(tf.zeros(shape, dtype)) for name, shape in self.shapes.items()}
            for _ in range(2)
        )
        # The kernel computes 1 − β in the parameters' precision: 1 − 0.999 is off by 1e-5 in float32. So it
        # is Adam with the rounded β, and gets the bias corrections of those.
        self.adam = spec.optimiser == "adam"
        betas = (spec.hyper.adam_beta1, spec.hyper.adam_beta2) if self.adam else (0.0, 0.0)
        self.rounded = self.adam and dataclasses.replace(
            spec.hyper,
            adam_beta1=float(self.dtype.type(betas[0])),
            adam_beta2=float(self.dtype.type(betas[1])),
        )
        # As tensors: a Python number or list is converted anew by every eager operation.
        self.zero, self.beta1, self.beta2 = (tf.constant(value, dtype) for value in (0.0, *betas))
        self.sizes = tf.constant([math.prod(shape) for shape in self.shapes.values()])
        self.split_shapes = [tf.constant(shape) for shape in self.shapes.values()]
        self.vector = tf.constant([-1])
        self._act = _callable(self._choose, mode)
        self._update = _callable(self._learn, mode)
        self._forward = _callable(self._heads, mode)
        self._grads = _callable(self._gradients, mode)
        zeros = {name: np.zeros(shape) for name, shape in self.shapes.items()}
        self.load({"params": params, "target": params, "m": zeros, "v": zeros, "t": 0})

    def put(self, *arrays: np.ndarray) -> Tuple[Any, ...]:
        return tuple([tf.constant(array) for array in arrays])

    def act(self, obs: Any, noise: Any = None) -> Tuple[np.ndarray, ...]:
        outputs = self._act(obs) if noise is None else self._act(obs, noise)
        return tuple([output.numpy() for output in outputs])

    def update(self, batch: tuple, lr: float) -> Any:
        self.t += 1
        if not self.adam:
            return self._update(*batch, tf.constant(lr, self.dtype), self.zero)
        step, root = adam_scalars(self.rounded, self.t, lr)
        return self._update(
            *batch,
            tf.constant(step / root, self.dtype),
            tf.constant(self.spec.hyper.adam_eps / root, self.dtype),
        )

    def read(self, handle: Any) -> Tuple[float, Optional[np.ndarray]]:
        return float(handle[0]), handle[1].numpy() if len(handle) > 1 else None

    def sync_target(self) -> None:
        self.target = self._split(self.flat, self.target)

    def drain(self) -> None:
        if tf.config.get_visible_devices("GPU"):
            tf.test.experimental.sync_devices()

    def state(self) -> Dict[str, Any]:
        m_scale, v_scale = self._moment_scales()
        return {
            "params": self._to_host(self.flat.numpy()),
            "target": self._to_host(np.concatenate([w.numpy().ravel() for w in self.target.values()])),
            "m": self._to_host(self.m.numpy() * self.dtype.type(m_scale)),
            "v": self._to_host(self.v.numpy() * self.dtype.type(v_scale)),
            "t": self.t,
        }

    def load(self, state: Dict[str, Any]) -> None:
        self.t = state["t"]
        m_scale, v_scale = self._moment_scales()
        self.flat.assign(self._to_device(state["params"]))
        self.m.assign(self._to_device(state["m"]) / self.dtype.type(m_scale))
        self.v.assign(self._to_device(state["v"]) / self.dtype.type(v_scale))
        self.weights = self._split(self.flat, self.weights)
        self.target = self._split(self._to_device(state["target"]), self.target)

    def forward(self, obs: np.ndarray, noise: Optional[np.ndarray]) -> Params:
        outputs = self._forward(*self.put(obs) if noise is None else self.put(obs, noise))
        names = [name for name, _, _ in self.spec.network.heads]
        return {name: output.numpy() for name, output in zip(names, outputs)}

    def grads(self, batch: tuple) -> Tuple[float, Params, Params]:
        raw, clipped, loss = self._grads(*self.put(*batch))[:3]
        return float(loss), self._to_host(raw.numpy()), self._to_host(clipped.numpy())

    def _heads(self, obs: Any, noise: Any = None) -> Tuple[Any, ...]:
        return tuple(forward(self.spec.network, self.weights, obs, noise).values())

    def _choose(self, obs: Any, noise: Any = None) -> Tuple[Any, ...]:
        network = self.spec.network
        outputs = forward(network, self.weights, obs, noise if network.noisy else None)
        if network.head == "q":
            q = q_values(network, outputs)
            if network.atoms > 1:
                q = tf.reduce_sum(tf.nn.softmax(q) * tf.constant(support(self.spec), self.dtype), 2)
            return (tf.argmax(q, 1),)
        action = tf.argmax(outputs["policy"] + noise, 1)
        return action, pick(tf.nn.log_softmax(outputs["policy"]), action), tf.squeeze(outputs["value"], 1)

    def _learn(self, *args: Any) -> Tuple[Any, ...]:
        *batch, step, eps = args
        # Data-parallel workers average the flat gradient between these two.
        _, clipped, *result = self._gradients(*batch)
        if self.adam:
            self._apply_adam(clipped, step, eps)
        else:
            tf.raw_ops.ResourceApplyGradientDescent(var=self.flat.handle, alpha=step, delta=clipped)
        self.weights = self._split(self.flat, self.weights)
        return tuple(result)

    def _apply_adam(self, gradient: Any, step: Any, eps: Any) -> None:
        """torch's Adam, step/root · m / (√v + ε/root), by TensorFlow's fused one.

        That one adds ε to the uncorrected root; it gets ε·√(1−β₂ᵗ) as its ε, the corrected step as its rate,
        and no powers of its own.
        """
        tf.raw_ops.ResourceApplyAdam(
            var=self.flat.handle,
            m=self.m.handle,
            v=self.v.handle,
            beta1_power=self.zero,
            beta2_power=self.zero,
            lr=step,
            beta1=self.beta1,
            beta2=self.beta2,
            epsilon=eps,
            grad=gradient,
        )

    def _gradients(self, *batch: Any) -> Tuple[Any, ...]:
        """(flat gradient, flat clipped gradient, loss, priorities where the algorithm has them)."""
        spec, hyper = self.spec, self.spec.hyper
        named = BATCHES[spec.algorithm](*batch)
        goal_of = GOALS.get(spec.algorithm, no_goal)
        goal = goal_of(spec, self.weights, self.target, named)
        weights = list(self.weights.values())
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(weights)
            loss, *priorities = LOSSES[spec.algorithm](spec, self.weights, named, goal)
        raw = tf.concat([tf.reshape(g, self.vector) for g in tape.gradient(loss, weights)], 0)
        clipped = raw
        if hyper.max_grad_norm:
            norm = tf.sqrt(2 * tf.nn.l2_loss(raw))
            clipped = raw * tf.minimum(tf.cast(1, raw.dtype), hyper.max_grad_norm / (norm + hyper.clip_eps))
        return (raw, clipped, loss, *priorities)

    def _split(self, flat: Any, weights: Tensors) -> Tensors:
        """`weights` := the parts of a flat vector; in eager mode plain tensors, which need no reading."""
        parts = tf.split(flat, self.sizes, num=len(self.shapes))
        parts = [tf.reshape(part, shape) for part, shape in zip(parts, self.split_shapes)]
        if self.eager:
            return dict(zip(self.shapes, parts))
        for weight, part in zip(weights.values(), parts):
            weight.assign(part, read_value=False)
        return weights

    def _moment_scales(self) -> Tuple[float, float]:
        """What turns moments under the rounded β into those under β; 1 in float64."""
        if not self.adam:
            return 1.0, 1.0
        hyper, t = self.spec.hyper, max(self.t, 1)
        return (
            (1 - hyper.adam_beta1**t) / (1 - self.rounded.adam_beta1**t),
            (1 - hyper.adam_beta2**t) / (1 - self.rounded.adam_beta2**t),
        )

    def _to_device(self, arrays: Params) -> np.ndarray:
        """Canonical arrays → flat vector, rows after a convolution reordered from (C, H, W) to (H, W, C)."""
        parts = []
        for name in self.shapes:
            array = np.asarray(arrays[name])
            if follows_convolution(self.spec.network, name):
                c, h, w = convolution_outputs(self.spec.network)[-1]
                array = array.reshape(c, h, w, -1).transpose(1, 2, 0, 3)
            parts.append(array.ravel())
        return np.concatenate(parts).astype(self.dtype)

    def _to_host(self, flat: np.ndarray) -> Params:
        arrays, start = {}, 0
        for name, shape in self.shapes.items():
            array = flat[start : start + math.prod(shape)]
            start += array.size
            if follows_convolution(self.spec.network, name):
                c, h, w = convolution_outputs(self.spec.network)[-1]
                array = array.reshape(h, w, c, -1).transpose(2, 0, 1, 3)
            arrays[name] = array.reshape(shape).copy()
        return arrays


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

    Calling it as a Python function binds and flattens its signature anew each time: 130 µs against 16. The
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
