"""JAX: op by op, and whole programs through `jax.jit`.

Eager mode dispatches one operation at a time and differentiates with `jax.value_and_grad` outside of any jit.
What `jax.numpy` compiles inside itself (`where`, `matmul`) stays compiled, as every user of JAX has it; plain
`lax` operations take 1.3 times as long. `jax.disable_jit` is five times slower and leaks 1 MB per update.

All parameters live in one flat vector, split into named weights inside the programs: a call then passes
four donated buffers instead of four per weight, and clipping, Adam and an all-reduce are each one operation.
Learners are here, what they compute is in `jax_maths`. Times in comments of both are of one DQN update (MLP
4-128-128-2, batch 32) on one core.
"""

from __future__ import annotations

import functools
import os
from typing import Any, Callable, Dict, Optional, Tuple, Type

import jax
import jax.numpy as jnp
import jaxlib
import numpy as np
from jax import Array
from jax.sharding import SingleDeviceSharding

from rldyno_rig.backends import contract
from rldyno_rig.backends.cuda import Driver, HostMemory, Place, Stage
from rldyno_rig.backends.jax_flat import (
    flat_choose,
    flat_descend,
    flat_descend_many,
    flat_forward,
    flat_gradient,
    flat_gradients,
    flat_step,
    flat_values,
)
from rldyno_rig.backends.jax_maths import (
    Batch,
    Model,
    Weights,
    action_values,
    choose,
    clip,
    convolve_by_product,
    forward,
    gradient,
    named,
    prepare,
)
from rldyno_rig.backends.jax_team import averaging, meet
from rldyno_rig.reference.optimiser import step_scalars
from rldyno_rig.spec import STORED, Params, Spec
from rldyno_rig.team.team import NATIVE, Team

MODES = ("eager", "jit")
INDEX_DTYPE = "int32"
FIRST_WITH_SCHEDULERS = (0, 9, 1)  # earlier releases refuse programs with the option that chooses one

# float64 learners need it; float32 ones are the same programs to the last instruction, because every array
# and index of theirs carries its type.
jax.config.update("jax_enable_x64", True)
# On a CPU a second thread would run the program while this one waits for it: 145 µs instead of 125.
jax.config.update("jax_cpu_enable_async_dispatch", False)


def facts() -> Dict[str, Any]:
    device = jax.config.jax_default_device
    on_gpu = device is not None and device.platform != "cpu"
    return {
        "versions": {"jax": jax.__version__, "jaxlib": jaxlib.__version__},
        "device": device.device_kind if on_gpu else "cpu",
        "platform": device.client.platform_version if on_gpu else "cpu",
        # XLA's own pool follows this variable; it ignores OMP_NUM_THREADS.
        "threads": int(os.environ["NPROC"]) if "NPROC" in os.environ else None,
        "tf32": jax.config.jax_default_matmul_precision == "tensorfloat32",
        "matmul_precision": jax.config.jax_default_matmul_precision,
        "cpu_async_dispatch": jax.distributed.is_initialized(),  # see `jax_team.meet`
        "preallocate": os.environ.get("XLA_PYTHON_CLIENT_PREALLOCATE", "true") == "true",
        "transfer": "put; jit on cpu: inside act and update",
    }


def make(spec: Spec, params: Params, mode: str, device: str, dtype: str) -> contract.Learner:
    # A learner on the CPU must not start a client for the GPU, which would take memory there.
    jax.config.update("jax_platforms", device)
    jax.config.update("jax_default_device", jax.local_devices(backend=device)[0])
    # On CPUs it changes nothing.
    jax.config.update("jax_default_matmul_precision", "tensorfloat32" if dtype == "tf32" else "highest")
    return _kind(spec, mode, device)(spec, params, STORED[dtype])


def _kind(spec: Spec, mode: str, device: str) -> Type[Learner]:
    if mode == "eager":
        return Learner
    # With convolutions a scan is slower. On a CPU XLA has no fast ones for the body of a loop: 13 times as
    # long (32 rows). On a GPU images travel while it works on the batch before: 1.13 times (128 rows).
    scans = not spec.network.convolutions
    if device == "cpu":
        return ScanningLearner if scans else JittedLearner
    return ScanningStagedLearner if scans else StagedLearner


def device_memory() -> Optional[Dict[str, int]]:
    """Bytes on the GPU: of arrays now and at the peak, and what XLA's pool holds for them."""
    device = jax.config.jax_default_device
    if device is None or device.platform == "cpu":
        return None
    stats = device.memory_stats()
    ours = ("used_bytes", "used_peak_bytes", "reserved_bytes")
    theirs = ("bytes_in_use", "peak_bytes_in_use", "pool_bytes")
    return {name: int(stats[key]) for name, key in zip(ours, theirs) if key in stats}


class Learner:
    """Eager mode, and what the other mode shares."""

    def __init__(self, spec: Spec, params: Params, dtype: str) -> None:
        self._settle()
        self.spec, self.model = spec, Model(spec, dtype)
        self.layout = self.model.layout
        self.average: Optional[Callable[[Array], Any]] = None
        zeros = {name: np.zeros_like(p) for name, p in params.items()}
        self.load({"params": params, "target": params, "m": zeros, "v": zeros, "t": 0})

    def join(self, team: Team) -> None:
        if team.collective == NATIVE and not jax.distributed.is_initialized():
            before = self.state()
            meet(team)
            self._settle()
            self.load(before)
        self.average = averaging(team, self.flat)

    def put(self, *arrays: np.ndarray) -> Batch:
        return jax.device_put(arrays, self.placement)

    def act(self, obs: Any, noise: Any = None) -> Tuple[np.ndarray, ...]:
        chosen = self._fetch(self._act(obs, noise))
        if chosen.ndim == 1:
            return (chosen,)
        return chosen[0].astype(INDEX_DTYPE), chosen[1], chosen[2]

    def values(self, obs: Any) -> Tuple[np.ndarray, ...]:
        return (self._fetch(self._act(obs, None, action_values)),)

    def update(self, batch: Batch, lr: float) -> Array:
        self.t += 1
        return self._update(batch, np.array(step_scalars(self.spec, self.t, lr), self.model.dtype))

    def read(self, handle: Array) -> contract.Reading:
        report = self._fetch(handle)
        return float(report[0]), report[1:] if len(report) > 1 else None

    def sync_target(self) -> None:
        # Arrays are immutable, and nothing is donated in eager mode.
        self.target, self.target_weights = self.flat, self.weights

    def drain(self) -> None:
        jax.block_until_ready((self.flat, self.target, self.m, self.v))

    def state(self) -> contract.State:
        vectors = {"params": self.flat, "target": self.target, "m": self.m, "v": self.v}
        return {**{key: self._unpack(vector) for key, vector in vectors.items()}, "t": self.t}

    def load(self, state: contract.State) -> None:
        # Vectors that are donated must not share memory with the host's.
        self.flat, self.target, self.m, self.v = (
            jax.device_put(self._pack(state[key]), self.placement, may_alias=False)
            for key in ("params", "target", "m", "v")
        )
        self.t = state["t"]
        self._changed()

    def forward(self, obs: np.ndarray, noise: Optional[np.ndarray]) -> Params:
        outputs = self._forward(*self.put(obs, *(() if noise is None else (noise,))))
        # A program returns dictionaries sorted by name.
        return {name: np.asarray(outputs[name]) for name, _, _ in self.model.network.heads}

    def grads(self, batch: contract.Host) -> Tuple[float, Params, Params]:
        report, raw, clipped = self._gradients(self.put(*batch))
        return self.read(report)[0], self._unpack(raw), self._unpack(clipped)

    def _settle(self) -> None:
        self.device = jax.config.jax_default_device
        # One object, because JAX keeps every sharding that it is given or makes of a device.
        self.placement = SingleDeviceSharding(self.device)

    def _changed(self) -> None:
        self.weights, self.target_weights = named(self.model, self.flat), named(self.model, self.target)

    def _fetch(self, array: Array) -> np.ndarray:
        return np.asarray(array)

    def _act(self, obs: Array, noise: Optional[Array], what: Callable[..., Array] = choose) -> Array:
        return what(self.model, self.weights, obs, noise)

    def _update(self, batch: Batch, scalars: np.ndarray) -> Array:
        report, raw = gradient(self.model, self.weights, self.target_weights, batch)
        if self.average is not None:
            raw = jnp.asarray(self.average(raw))
        clipped = clip(self.model, raw)
        self.flat, self.m, self.v = self.model.step(self.model, self.flat, self.m, self.v, clipped, scalars)
        self.weights = named(self.model, self.flat)
        return report

    def _forward(self, obs: Array, noise: Optional[Array] = None) -> Weights:
        return forward(self.model, self.weights, prepare(self.model, obs, noise))

    def _gradients(self, batch: Batch) -> Tuple[Array, Array, Array]:
        report, raw = gradient(self.model, self.weights, self.target_weights, batch)
        return report, raw, clip(self.model, raw)

    def _pack(self, arrays: Params) -> np.ndarray:
        """Canonical arrays → one flat vector on the host."""
        return self.layout.pack(arrays).astype(self.model.dtype, copy=False)

    def _unpack(self, flat: Array) -> Params:
        return self.layout.unpack(np.asarray(flat))


class JittedLearner(Learner):
    """One program for acting and one for the whole update, on donated buffers.

    A worker of a team has two for an update: what comes before and after the gradients are averaged.
    On a CPU the programs take NumPy arrays as they are; `device_put` would add 180 µs.
    """

    def __init__(self, spec: Spec, params: Params, dtype: str) -> None:
        super().__init__(spec, params, dtype)
        self._choose, self._value = map(self._program, (flat_choose, flat_values))
        self._forward_flat, self._gradients_flat = map(self._program, (flat_forward, flat_gradients))
        self._descend, self._step = (self._program(f, (0, 1, 2)) for f in (flat_descend, flat_step))
        self._differentiate, self._copy = self._program(flat_gradient), jax.jit(jnp.copy)

    def put(self, *arrays: np.ndarray) -> Batch:
        return arrays

    def _program(self, function: Callable[..., Any], donated: Tuple[int, ...] = ()) -> Any:
        bound = functools.partial(function, self.model)
        return jax.jit(bound, donate_argnums=donated, compiler_options=self._options())

    def _options(self) -> Dict[str, Any]:
        # The other schedule runs independent operations side by side, in a second thread: Rainbow takes 1.16
        # times as long on one core. Of other flags, one thread for Eigen, 512-bit vectors and fast min and
        # max change less than 5 %, products without YNN take 1.07 times as long, an update without fusion
        # emitters 1.6, an act of 8 rows as one kernel (`xla_cpu_small_call`) 2.8. Programs compiled ahead of
        # time take as long to call; weights and moments as one argument save 2.6 of the 19 µs of a call.
        if jax.__version_info__ < FIRST_WITH_SCHEDULERS:
            return {}
        return {"xla_cpu_scheduler_type": "CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED"}

    def sync_target(self) -> None:
        # A copy, because the next update overwrites the buffer of `flat`.
        self.target = self._copy(self.flat)

    def _changed(self) -> None:
        pass

    def _act(self, obs: Any, noise: Any, what: Callable[..., Array] = choose) -> Array:
        return (self._choose if what is choose else self._value)(self.flat, obs, noise)

    def _update(self, batch: Batch, scalars: np.ndarray) -> Array:
        return self._run(self._descend if self.average is None else self._together, batch, scalars)

    def _run(self, program: Callable[..., Any], batch: Batch, scalars: Any) -> Array:
        """One update or several, whatever the program makes."""
        vectors = self.flat, self.m, self.v, self.target
        self.flat, self.m, self.v, report = program(*vectors, scalars, tuple(batch))
        return report

    def _together(
        self, flat: Array, m: Array, v: Array, target: Array, scalars: Any, batch: Batch
    ) -> Tuple[Array, Array, Array, Array]:
        """What `flat_descend` computes, with the others of the team."""
        assert self.average is not None
        report, raw = self._differentiate(flat, target, batch)
        return (*self._step(flat, m, v, self.average(raw), scalars), report)

    def _forward(self, obs: Any, noise: Any = None) -> Weights:
        return self._forward_flat(self.flat, obs, noise)

    def _gradients(self, batch: Batch) -> Tuple[Array, Array, Array]:
        return self._gradients_flat(self.flat, self.target, tuple(batch))


class ScanningLearner(JittedLearner):
    """Several updates are one program too, a loop over their batches.

    An update of 128 rows (64-64 tanh) then takes 134 µs, not 203: about 70 of each call are its own. With the
    loop unrolled by 2, 4 and 16 it takes 142, 149 and 206. On an H200 104, not 188; unrolled 103 to 128.
    """

    def __init__(self, spec: Spec, params: Params, dtype: str) -> None:
        super().__init__(spec, params, dtype)
        self._descend_many = self._program(flat_descend_many, (0, 1, 2))

    def update_many(self, batches: Batch, lr: float) -> Array:
        steps = range(self.t + 1, self.t + 1 + len(batches[0]))
        self.t = steps[-1]
        scalars = np.array([step_scalars(self.spec, t, lr) for t in steps], self.model.dtype)
        return self._run(self._descend_many, batches, scalars)


class StagedLearner(JittedLearner):
    """On a GPU: batches travel to fixed device arrays, and results back, by the driver.

    Other ways are slower, in this order: programs that read and write pinned memory themselves, `device_put`
    from pinned memory, and NumPy arrays as arguments (which take about ten times as long to act on).
    """

    def __init__(self, spec: Spec, params: Params, dtype: str) -> None:
        super().__init__(spec, params, dtype)
        self.model.convolve = convolve_by_product
        self.driver = Driver()
        self.stages: Dict[Tuple[Any, ...], Stage] = {}
        self.places: Dict[int, Place] = {}
        self.results: Dict[Tuple[Any, ...], HostMemory] = {}
        self.scalars: Tuple[np.ndarray, Any] = (np.zeros(0), None)

    def put(self, *arrays: np.ndarray) -> Batch:
        """An asynchronous copy; good until `Stage.PLACES` more of the same shapes."""
        stage = self._stage(arrays)
        place = stage.next_place()
        if place.reader is not None:
            place.reader.block_until_ready()
            place.reader = None
        stage.put(place, arrays)
        return place.placed

    def host(self, *arrays: np.ndarray) -> Tuple[np.ndarray, ...]:
        """The arrays in page-locked memory, where `put` finds them without another copy."""
        return self._stage(arrays).lock(arrays)

    def _options(self) -> Dict[str, Any]:
        # Trying Triton kernels for every product takes 160 s of compiling on one core; cuBLAS chooses by
        # itself, but has no TensorFloat-32 for some shapes.
        return {"xla_gpu_enable_triton_gemm": jax.config.jax_default_matmul_precision == "tensorfloat32"}

    def _act(self, obs: Any, noise: Any, what: Callable[..., Array] = choose) -> Array:
        self._await(obs)
        chosen = super()._act(obs, noise, what)
        self.driver.begin_waiting()
        return chosen

    def _run(self, program: Callable[..., Any], batch: Batch, scalars: np.ndarray) -> Array:
        self.driver.begin_waiting()
        if not np.array_equal(scalars, self.scalars[0]):
            self.scalars = scalars, self.put(scalars)[0]
            self._await(self.scalars[1])
        place = self._await(batch[0])
        report = super()._run(program, batch, self.scalars[1])
        place.reader = self.places[id(self.scalars[1])].reader = report
        return report

    def _forward(self, obs: Any, noise: Any = None) -> Weights:
        self._await(obs)
        return super()._forward(obs, noise)

    def _gradients(self, batch: Batch) -> Tuple[Array, Array, Array]:
        self._await(batch[0])
        return super()._gradients(batch)

    def _fetch(self, array: Array) -> np.ndarray:
        """A stream of ours waits for the array, on the device, and copies it: 25 µs; np.asarray takes 400."""
        # `nbytes` is computed again at each access: 3 µs.
        key = array.shape, array.dtype
        memory = self.results.get(key)
        if memory is None:
            memory = self.results[key] = HostMemory(self.driver, (np.empty(*key),))
        (here,), call, stream = memory.arrays, self.driver.call, self.driver.returning
        ready = array.__dlpack__(stream=stream)
        call.cuMemcpyDtoHAsync_v2(memory.address, array.unsafe_buffer_pointer(), here.nbytes, stream)
        call.cuStreamSynchronize(stream)
        del ready
        return here.copy()

    def _stage(self, arrays: Tuple[np.ndarray, ...]) -> Stage:
        key = tuple([(array.shape, array.dtype) for array in arrays])
        stage = self.stages.get(key)
        if stage is None:
            stage = self.stages[key] = Stage(self.driver, arrays, self._place)
            self.places.update((id(place.placed[0]), place) for place in stage.places)
        return stage

    def _place(self, memory: HostMemory) -> Place:
        zeros = tuple(np.zeros_like(array) for array in memory.arrays)
        placed = jax.block_until_ready(jax.device_put(zeros, self.placement, may_alias=False))
        addresses = [array.unsafe_buffer_pointer() for array in placed]
        return Place(self.driver, placed, list(zip(addresses, memory.offsets, [a.nbytes for a in placed])))

    def _await(self, first: Array) -> Place:
        """A program cannot wait for a copy of ours: the host waits for it."""
        place = self.places[id(first)]
        self.driver.need(place)
        self.driver.call.cuEventSynchronize(place.arrived)
        return place


class ScanningStagedLearner(ScanningLearner, StagedLearner):
    """Both: `StagedLearner` runs the programs of `ScanningLearner`."""
