"""TensorFlow 2: raw ops, variables and GradientTape.

Not Keras: its layers go through a dispatch layer, and its Adam adds ε before the bias correction.
The parameters live in one flat vector, so that gradients are one vector too and the optimiser is one kernel.
The network gets its weights as plain tensors, which every update returns anew: an argument costs a graph less
than a variable that it reads (act, batch 1: 26 µs against 30). What is computed is in `tensorflow_maths`.
"""

from __future__ import annotations

import dataclasses
import os
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Type

import numpy as np
import tensorflow as tf
from tensorflow.python import pywrap_tfe
from tensorflow.python.eager import context as eager_context

from rldyno_rig.backends import contract
from rldyno_rig.backends.tensorflow_maths import (
    Model,
    Tensors,
    action_values,
    choose,
    clip,
    forward,
    gradient,
    named,
)
from rldyno_rig.backends.tensorflow_stage import Stage, constants
from rldyno_rig.backends.tensorflow_team import averaging
from rldyno_rig.reference.optimiser import adam_scalars
from rldyno_rig.spec import STORED, Params, Spec
from rldyno_rig.team.team import Team

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
    return _kind(spec, mode, device)(spec, params, mode, STORED[dtype])


def _kind(spec: Spec, mode: str, device: str) -> Type[Learner]:
    if mode != "xla":
        return Learner
    # XLA has no fast convolutions for the body of a loop on a CPU.
    return XlaLearner if spec.network.convolutions or device != "cpu" else LoopingLearner


def device_memory() -> Optional[Dict[str, int]]:
    """Bytes on the GPU: in use now, at the peak. TensorFlow does not say what its pool has reserved."""
    if not tf.config.get_visible_devices("GPU"):
        return None
    info = tf.config.experimental.get_memory_info("GPU:0")
    return {"used_bytes": info["current"], "used_peak_bytes": info["peak"]}


class Learner:
    """Eager and graph: TensorFlow's fused Adam changes variables in place, the network gets their parts."""

    weights: Sequence[Any]
    """What functions get of a network: its tensors in the order of their names."""
    target_weights: Sequence[Any]
    flat: Any = None

    def __init__(self, spec: Spec, params: Params, mode: str, dtype: str) -> None:
        self.spec, self.model = spec, Model(spec, dtype)
        self.layout, self.dtype = self.model.layout, self.model.dtype
        self.names = tuple(self.layout.shapes)
        self.adam = spec.optimiser == "adam"
        self.rounded: Any = self._rounded() if self.adam else None
        on_gpu = bool(tf.config.get_visible_devices("GPU"))
        self._place: Callable[..., Sequence[Any]] = constants if on_gpu else Stage().put
        self._act = _callable(self._choose, mode)
        self._values = _callable(self._value, mode)
        self._update = _callable(self._descend, mode)
        self._gradient = _callable(self._slope, mode)
        self._step = _callable(self._descend_by, mode)
        self._forward = _callable(self._heads, mode)
        self._gradients = _callable(self._gradient_and_clipped, mode)
        self.average: Optional[Callable[[Any], Any]] = None
        zeros = {name: np.zeros_like(p) for name, p in params.items()}
        self.load({"params": params, "target": params, "m": zeros, "v": zeros, "t": 0})

    def join(self, team: Team) -> None:
        state = self.state()
        reduce, means = averaging(team, self.put)
        self.average = team.timed(reduce, means, self.layout.size * self.dtype.itemsize)
        # TensorFlow's own collective ends the devices on which everything was before it.
        self.model, self.flat = Model(self.spec, self.dtype.name), None
        self.load(state)

    def put(self, *arrays: np.ndarray) -> Sequence[Any]:
        return self._place(*arrays)

    def act(self, obs: Any, noise: Any = None) -> Tuple[np.ndarray, ...]:
        placed = (obs,) if noise is None else (obs, noise)
        return tuple([output.numpy() for output in self._act(*placed, *self.weights)])

    def values(self, obs: Any) -> Tuple[np.ndarray, ...]:
        return tuple([output.numpy() for output in self._values(obs, *self.weights)])

    def update(self, batch: Tuple[Any, ...], lr: float) -> Any:
        scalars = self.put(*self._scalars(1, lr)[0])
        if self.average is None:
            return self._updated(self._update(*batch, *scalars, *self._vectors()))
        raw, *report = self._gradient(*batch, *self.weights, *self.target_weights)
        self._updated(self._step(self.average(raw), *scalars, *self._moving()))
        return report

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
            "target": self.layout.unpack(np.concatenate([w.numpy().ravel() for w in self.target_weights])),
            "m": self.layout.unpack(self.m.numpy() * self.dtype.type(m_scale)),
            "v": self.layout.unpack(self.v.numpy() * self.dtype.type(v_scale)),
            "t": self.t,
        }

    def load(self, state: contract.State) -> None:
        self.t: int = state["t"]
        m_scale, v_scale = self._moment_scales()
        m = self._pack(state["m"]) / self.dtype.type(m_scale)
        v = self._pack(state["v"]) / self.dtype.type(v_scale)
        self._set(self._pack(state["params"]), m, v, self._pack(state["target"]))

    def forward(self, obs: np.ndarray, noise: Optional[np.ndarray]) -> Params:
        placed = self.put(obs) if noise is None else self.put(obs, noise)
        outputs = self._forward(*placed, *self.weights)
        names = [name for name, _, _ in self.spec.network.heads]
        return {name: output.numpy() for name, output in zip(names, outputs)}

    def grads(self, batch: contract.Host) -> Tuple[float, Params, Params]:
        placed = self.put(*batch)
        raw, clipped, loss = self._gradients(*placed, *self.weights, *self.target_weights)[:3]
        return float(loss), self.layout.unpack(raw.numpy()), self.layout.unpack(clipped.numpy())

    # What is traced. Arguments: placed arrays, then the tensors of the networks that are used.

    def _choose(self, *args: Any) -> Tuple[Any, ...]:
        placed, (weights,) = self._split(args, 1)
        return choose(self.model, self._named(weights), *placed)

    def _value(self, *args: Any) -> Tuple[Any, ...]:
        placed, (weights,) = self._split(args, 1)
        return (action_values(self.model, self._named(weights), *placed),)

    def _descend(self, *args: Any) -> Tuple[Any, ...]:
        (*batch, step, eps), (weights, target) = self._split(args, 2)
        report, raw = gradient(self.model, self._named(weights), self._named(target), tuple(batch))
        return (*self._descend_by(raw, step, eps), *report)

    def _slope(self, *args: Any) -> Tuple[Any, ...]:
        """The first half of `_descend`, for a team."""
        batch, (weights, target) = self._split(args, 2)
        report, raw = gradient(self.model, self._named(weights), self._named(target), batch)
        return (raw, *report)

    def _descend_by(self, raw: Any, step: Any, eps: Any, *vectors: Any) -> Tuple[Any, ...]:
        """The second half."""
        self.model.step(self.model, self.flat, self.m, self.v, clip(self.model, raw), step, eps)
        return tuple(named(self.model, self.flat).values())

    def _heads(self, *args: Any) -> Tuple[Any, ...]:
        placed, (weights,) = self._split(args, 1)
        return tuple(forward(self.model, self._named(weights), *placed).values())

    def _gradient_and_clipped(self, *args: Any) -> Tuple[Any, ...]:
        batch, (weights, target) = self._split(args, 2)
        report, raw = gradient(self.model, self._named(weights), self._named(target), batch)
        return (raw, clip(self.model, raw), *report)

    def _split(self, args: Tuple[Any, ...], networks: int) -> Tuple[Tuple[Any, ...], List[Tuple[Any, ...]]]:
        """Placed arrays, and the tensors of each network."""
        size = len(self.weights)
        start = len(args) - networks * size
        return args[:start], [args[at : at + size] for at in range(start, len(args), size)]

    def _named(self, weights: Sequence[Any]) -> Tensors:
        return dict(zip(self.names, weights))

    def _vectors(self) -> Tuple[Any, ...]:
        """What `_descend` gets after the scalars."""
        return (*self.weights, *self.target_weights)

    def _moving(self) -> Tuple[Any, ...]:
        """What `_descend_by` gets after them."""
        return ()

    def _updated(self, outputs: Sequence[Any]) -> Sequence[Any]:
        """Keep what a step returned; what it reports."""
        self.weights = outputs[: len(self.names)]
        return outputs[len(self.names) :]

    def _set(self, flat: np.ndarray, m: np.ndarray, v: np.ndarray, target: np.ndarray) -> None:
        if self.flat is None:
            self.flat, self.m, self.v = (tf.Variable(vector) for vector in (flat, m, v))
        self.flat.assign(flat)
        self.m.assign(m)
        self.v.assign(v)
        self.weights = tuple(named(self.model, self.flat).values())
        self.target_weights = tuple(named(self.model, target).values())

    def _rounded(self) -> Any:
        """The kernel computes 1 − β in the parameters' precision: 1 − 0.999 is off by 1e-5 in float32. So it
        is Adam with the rounded β, and gets the bias corrections of those.
        """
        hyper = self.model.hyper
        beta1, beta2 = (float(self.dtype.type(beta)) for beta in (hyper.adam_beta1, hyper.adam_beta2))
        return dataclasses.replace(hyper, adam_beta1=beta1, adam_beta2=beta2)

    def _scalars(self, count: int, lr: float) -> np.ndarray:
        """[count, 2]: step and ε of the optimiser for the next updates, which are counted here."""
        first, self.t = self.t + 1, self.t + count
        if not self.adam:
            return np.array([(lr, 0.0)] * count, self.dtype)
        pairs = [adam_scalars(self.rounded, t, lr) for t in range(first, self.t + 1)]
        eps = self.model.hyper.adam_eps
        return np.array([(step / root, eps / root) for step, root in pairs], self.dtype)

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


class XlaLearner(Learner):
    """All vectors are arguments and results of compiled programs, which variables make slower: an update of
    PPO on 128 rows takes 630 µs against 1230.
    """

    def _descend(self, *args: Any) -> Tuple[Any, ...]:
        *batch, step, eps, flat, m, v, target = args
        model = self.model
        report, raw = gradient(model, named(model, flat), named(model, target), tuple(batch))
        return (*self._descend_by(raw, step, eps, flat, m, v), *report)

    def _descend_by(self, raw: Any, step: Any, eps: Any, *vectors: Any) -> Tuple[Any, ...]:
        model = self.model
        return model.moved(model, *vectors, clip(model, raw), step, eps)

    def _vectors(self) -> Tuple[Any, ...]:
        return (self.flat, self.m, self.v, *self.target_weights)

    def _moving(self) -> Tuple[Any, ...]:
        return (self.flat, self.m, self.v)

    def _updated(self, outputs: Sequence[Any]) -> Sequence[Any]:
        self.flat, self.m, self.v = outputs[:3]
        self.weights = outputs[:1]
        return outputs[3:]

    def _named(self, weights: Sequence[Any]) -> Tensors:
        return named(self.model, weights[0])

    def _set(self, flat: np.ndarray, m: np.ndarray, v: np.ndarray, target: np.ndarray) -> None:
        self.flat, self.m, self.v = (tf.constant(vector) for vector in (flat, m, v))
        self.weights, self.target_weights = (self.flat,), (tf.constant(target),)

    def _rounded(self) -> Any:
        return self.model.hyper


class LoopingLearner(XlaLearner):
    """Runs the minibatches of a rollout as one program: 450 µs per update against 630 (PPO, 8 × 128 rows)."""

    def __init__(self, spec: Spec, params: Params, mode: str, dtype: str) -> None:
        super().__init__(spec, params, mode, dtype)
        self._update_many = _callable(self._descend_many, mode)

    def update_many(self, batches: Tuple[Any, ...], lr: float) -> Any:
        (scalars,) = self.put(self._scalars(batches[0].shape[0], lr))
        return self._updated(self._update_many(*batches, scalars, *self._vectors()))

    def _descend_many(self, *args: Any) -> Tuple[Any, ...]:
        *batches, scalars, flat, m, v, target = args
        count = scalars.shape[0]

        def descend(i: Any, *vectors: Any) -> Tuple[Any, ...]:
            batch = [array[i] for array in batches]
            return (i + 1, *self._descend(*batch, scalars[i, 0], scalars[i, 1], *vectors[:3], target))

        # The first update has the report to begin with.
        first = descend(0, flat, m, v)
        last = tf.while_loop(lambda i, *_: i < count, descend, first, maximum_iterations=count - 1)
        return tuple(last[1:])


def _callable(body: Callable[..., Tuple[Any, ...]], mode: str) -> Callable[..., Sequence[Any]]:
    """`body` as it is, or traced once for each shape of its first argument (one, in a run)."""
    if mode == "eager":
        return body
    traced: Dict[Tuple[int, ...], Callable[..., Sequence[Any]]] = {}

    def call(*args: Any) -> Sequence[Any]:
        shape = args[0]._shape_tuple()  # `shape` takes 2 µs
        if shape not in traced:
            traced[shape] = _trace(body, args, mode)
        return traced[shape](*args)

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
