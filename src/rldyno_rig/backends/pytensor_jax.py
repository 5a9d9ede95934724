"""PyTensor's graphs as programs of JAX, its one way to a GPU.

What a program returns stays on the device: shared vectors hold arrays of JAX, which nothing changes in place.
"""

from __future__ import annotations

import itertools
from typing import Any, Callable, Dict, List, Sequence, Tuple

import jax
import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.compile.mode import get_mode
from pytensor.graph.replace import clone_replace
from pytensor.link.jax.dispatch.basic import jax_funcify
from pytensor.tensor.elemwise import CAReduce

from rldyno_rig.backends import contract
from rldyno_rig.backends.pytensor_model import PytensorModel
from rldyno_rig.backends.symbolic import Learner
from rldyno_rig.spec import STORED, Params, Spec
from rldyno_rig.team.team import Team

# On a CPU a second thread would run the program while this one waits for it.
jax.config.update("jax_cpu_enable_async_dispatch", False)

_reduction = jax_funcify.dispatch(CAReduce)


@jax_funcify.register(CAReduce)
def reduction(op: Any, node: Any, **more: Any) -> Callable[[Any], Any]:
    """PyTensor 3.0 leaves a sum in the type in which its other compilers add: float64 for float32."""
    reduce, dtype = _reduction(op, node=node, **more), node.outputs[0].type.dtype
    return lambda x: reduce(x).astype(dtype)


def make(spec: Spec, params: Params, device: str, dtype: str) -> contract.Learner:
    # A learner on the CPU must not start a client for the GPU, which would take memory there.
    jax.config.update("jax_platforms", device)
    jax.config.update("jax_default_device", jax.local_devices(backend=device)[0])
    # On CPUs it changes nothing.
    jax.config.update("jax_default_matmul_precision", "tensorfloat32" if dtype == "tf32" else "highest")
    return JaxLearner(JaxModel(spec), pytensor, get_mode("JAX"), params, STORED[dtype])


def facts() -> Dict[str, Any]:
    device = jax.config.jax_default_device
    on_gpu = device is not None and device.platform != "cpu"
    return {
        "device": device.device_kind if on_gpu else "cpu",
        "matmul_precision": jax.config.jax_default_matmul_precision,
        "tf32": jax.config.jax_default_matmul_precision == "tensorfloat32",
        "transfer": "put",
    }


class JaxModel(PytensorModel):
    def windows(self, x: Any, kernel: int, stride: int, rows: int, columns: int) -> Any:
        """Joined slices: XLA fuses them, and wants no positions that depend on the number of rows."""
        tall, wide = (stride * (count - 1) + 1 for count in (rows, columns))
        places = itertools.product(range(kernel), repeat=2)
        slices = [x[:, i : i + tall : stride, j : j + wide : stride] for i, j in places]
        return pt.concatenate(slices, 3).reshape((-1, kernel * kernel * x.type.shape[3]))


class JaxLearner(Learner):
    def join(self, team: Team) -> None:
        super().join(team)
        reduce = self.average
        assert reduce is not None
        self.average = lambda raw: reduce(np.array(raw))

    def put(self, *arrays: np.ndarray) -> Tuple[Any, ...]:
        return tuple(jax.device_put(arrays))

    def read(self, handle: Sequence[Any]) -> contract.Reading:
        return super().read(list(self._host(handle)))

    def sync_target(self) -> None:
        self.target.container.storage[0] = self.flat.container.storage[0]

    def drain(self) -> None:
        jax.block_until_ready(self.flat.container.storage[0])

    def load(self, state: contract.State) -> None:
        for key, vector in self.vectors.items():
            # `set_value` would make an array of the host of it.
            vector.container.storage[0] = jax.device_put(self._pack(state[key]))
        self.t = state["t"]

    def _function(self, inputs: List[Any], outputs: List[Any], updates: Any = ()) -> Any:
        """A program for each shape of the inputs: JAX wants to know all shapes when it compiles."""
        programs: Dict[Any, Any] = {}
        vectors, values = [vector for vector, _ in updates], [value for _, value in updates]
        one = super()._function

        def call(*arrays: Any) -> Any:
            shapes = tuple(array.shape for array in arrays)
            if shapes not in programs:
                sized = [pt.tensor(dtype=of.type.dtype, shape=shape) for of, shape in zip(inputs, shapes)]
                graph = clone_replace([*outputs, *values], dict(zip(inputs, sized)), rebuild_strict=False)
                count = len(outputs)
                programs[shapes] = one(sized, graph[:count], list(zip(vectors, graph[count:])))
            return programs[shapes](*arrays)

        return call

    def _host(self, arrays: Sequence[Any]) -> Sequence[np.ndarray]:
        return jax.device_get(list(arrays))
