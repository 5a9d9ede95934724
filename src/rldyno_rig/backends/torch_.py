"""PyTorch: eager, `torch.compile`, and CUDA graphs.

All parameters live in one flat vector that the named weights are views of, so that clipping, Adam, the copy
onto the target network and an all-reduce are each one operation. Learners are here, what they compute is in
`torch_maths`. Times in comments of both are of one DQN update (MLP 4-128-128-2, batch 32) on one core, where
nn.Module, clip_grad_norm_ and optim.Adam(fused=True) take 650 µs.
"""

from __future__ import annotations

import copy
import functools
from typing import Any, Callable, Dict, Optional, Tuple

import numpy as np
import torch
from torch import Tensor

from rldyno_rig.backends import contract
from rldyno_rig.backends.cuda import Driver, HostMemory, Place, Stage
from rldyno_rig.backends.torch_maths import (
    Batch,
    Model,
    adam_fused,
    choose,
    clip,
    convolve_by_product,
    descend,
    forward,
    gradient,
    named,
    split_product,
    traced_choose,
    traced_descend,
    traced_gradient,
)
from rldyno_rig.reference.optimiser import step_scalars
from rldyno_rig.spec import STORED, Params, Spec

MODES = ("eager", "compile", "cudagraph")
INDEX_DTYPE = "int64"

# Intra-op threads follow OMP_NUM_THREADS, which torch reads itself.
torch.set_num_interop_threads(1)
# Shapes never change: let cuDNN time its algorithms once, while warming up.
torch.backends.cudnn.benchmark = True


def facts() -> Dict[str, Any]:
    versions = {"torch": torch.__version__}
    on_gpu = torch.cuda.is_initialized()
    if on_gpu:
        versions.update(cuda=torch.version.cuda, cudnn=str(torch.backends.cudnn.version()))
    return {
        "versions": versions,
        "device": torch.cuda.get_device_name() if on_gpu else "cpu",
        "threads": torch.get_num_threads(),
        "interop_threads": torch.get_num_interop_threads(),
        "tf32": torch.backends.cuda.matmul.allow_tf32 or torch.backends.cudnn.allow_tf32,
        "cudnn_benchmark": torch.backends.cudnn.benchmark,
        "cudnn_deterministic": torch.backends.cudnn.deterministic,
        "mkldnn": torch.backends.mkldnn.is_available(),
    }


def make(spec: Spec, params: Params, mode: str, device: str, dtype: str) -> contract.Learner:
    assert device == "cuda" or (device == "cpu" and mode != "cudagraph")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = dtype == "tf32"
    learners = {"eager": Learner, "compile": CompiledLearner, "cudagraph": CapturedLearner}
    return learners[mode](spec, params, device, STORED[dtype])


def device_memory() -> Optional[Dict[str, int]]:
    """Bytes on the GPU: of tensors now and at the peak, and what the caching allocator holds for them."""
    if not torch.cuda.is_initialized():
        return None
    return {
        "used_bytes": torch.cuda.memory_allocated(),
        "used_peak_bytes": torch.cuda.max_memory_allocated(),
        "reserved_bytes": torch.cuda.memory_reserved(),
    }


class Learner:
    """Eager mode, and what the other modes share."""

    def __init__(self, spec: Spec, params: Params, device: str, dtype: str) -> None:
        self.device, self.dtype = torch.device(device), dtype
        self.spec, self.model = spec, Model(spec, self.device, dtype)
        self.layout = self.model.layout
        self.stages: Dict[Tuple[Any, ...], Stage] = {}
        self.places: Dict[int, Place] = {}
        self.flat = self._pack(params).to(self.device, copy=True)
        self.target = self.flat.clone()
        self.m, self.v = torch.zeros_like(self.flat), torch.zeros_like(self.flat)
        self.vectors = {"params": self.flat, "target": self.target, "m": self.m, "v": self.v}
        self.t = 0
        self.steps = torch.zeros((), device=self.device)  # t again, where the fused kernel reads it
        self.weights = {name: w.detach().requires_grad_() for name, w in named(self.model, self.flat).items()}
        self.target_weights = named(self.model, self.target)

    def put(self, *arrays: np.ndarray) -> Batch:
        """On a GPU an asynchronous copy; good until `Stage.PLACES` more of the same shapes."""
        if self.device.type == "cpu":
            return tuple(map(torch.from_numpy, arrays))
        stage = self._stage(arrays)
        place = stage.next_place()
        stage.put(place, arrays)
        return place.placed

    def host(self, *arrays: np.ndarray) -> Tuple[np.ndarray, ...]:
        """The arrays in page-locked memory, where `put` finds them without another copy."""
        return self._stage(arrays).lock(arrays)

    @torch.inference_mode()
    def act(self, obs: Tensor, noise: Optional[Tensor] = None) -> Tuple[np.ndarray, ...]:
        self._await(obs)
        chosen = self._act(obs, noise)
        self._begin_waiting()
        return self._fetch(chosen)

    def update(self, batch: Batch, lr: float) -> Tensor:
        self.t += 1
        self._begin_waiting()
        place = self._await(batch[0])
        handle = self._update(batch, lr)
        self._consumed(place)
        return handle

    def read(self, handle: Tensor) -> contract.Reading:
        report = handle.cpu().numpy()
        return float(report[0]), report[1:] if len(report) > 1 else None

    def sync_target(self) -> None:
        self.target.copy_(self.flat)

    def drain(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def state(self) -> contract.State:
        return {**{key: self._unpack(vector) for key, vector in self.vectors.items()}, "t": self.t}

    def load(self, state: contract.State) -> None:
        for key, vector in self.vectors.items():
            vector.copy_(self._pack(state[key]))
        self.t = state["t"]
        self.steps.fill_(self.t)

    def forward(self, obs: np.ndarray, noise: Optional[np.ndarray]) -> Params:
        placed = self.put(obs) if noise is None else self.put(obs, noise)
        self._await(placed[0])
        with torch.inference_mode():
            outputs = forward(self.model, self.weights, *placed)
        return dict(zip(outputs, to_host(tuple(outputs.values()))))

    def grads(self, batch: contract.Host) -> Tuple[float, Params, Params]:
        placed = self.put(*batch)
        self._await(placed[0])
        report, gradient = self._gradient(placed)
        raw = self._unpack(gradient)
        return self.read(report)[0], raw, self._unpack(clip(self.model, gradient))

    @functools.cached_property
    def driver(self) -> Driver:
        return Driver()

    @functools.cached_property
    def stream(self) -> int:
        return torch.cuda.current_stream().cuda_stream

    def _stage(self, arrays: Tuple[np.ndarray, ...]) -> Stage:
        key = tuple([(array.shape, array.dtype) for array in arrays])
        stage = self.stages.get(key)
        if stage is None:
            stage = self.stages[key] = Stage(self.driver, arrays, functools.partial(place, self.driver))
            self.places.update((spot.placed[0].data_ptr(), spot) for spot in stage.places)
        return stage

    def _await(self, first: Tensor) -> Optional[Place]:
        """Let the device, not the host, wait for the copy of the batch that begins with this tensor."""
        if self.device.type == "cpu":
            return None
        place = self.places[first.data_ptr()]
        self.driver.need(place)
        self.driver.call.cuStreamWaitEvent(self.stream, place.arrived, 0)
        return place

    def _begin_waiting(self) -> None:
        if self.stages:
            self.driver.begin_waiting()

    def _consumed(self, place: Optional[Place]) -> None:
        """What was launched so far is the last to read this batch."""
        if place:
            self.driver.call.cuEventRecord(place.consumed, self.stream)

    def _fetch(self, tensors: Batch) -> Tuple[np.ndarray, ...]:
        return to_host(tensors)

    def _act(self, obs: Tensor, noise: Optional[Tensor]) -> Batch:
        return choose(self.model, self.weights, obs, noise)

    def _update(self, batch: Batch, lr: float) -> Tensor:
        report, gradient = self._gradient(batch)
        # Data-parallel workers average `gradient` here.
        with torch.no_grad():
            clipped = clip(self.model, gradient)
            if self.spec.optimiser == "sgd":
                self.flat.sub_(clipped, alpha=lr)
            else:
                adam_fused(self.model, self.flat, self.m, self.v, clipped, self.steps, lr)
        return report

    def _gradient(self, batch: Batch) -> Tuple[Tensor, Tensor]:
        return gradient(self.model, self.weights, self.target_weights, batch)

    def _scalars(self, lr: float) -> np.ndarray:
        return np.array(step_scalars(self.spec, self.t, lr), self.dtype)

    def _pack(self, arrays: Params) -> Tensor:
        """Canonical arrays → one flat vector on the host."""
        return torch.from_numpy(self.layout.pack(arrays).astype(self.dtype, copy=False))

    def _unpack(self, flat: Tensor) -> Params:
        return self.layout.unpack(flat.cpu().numpy())


class CompiledLearner(Learner):
    """One program for acting and one for the whole update, which takes 230 µs where eager takes 430 µs.

    `cpp_wrapper` would save 10 µs more, but triples the first call; `max_autotune` is slower. Before a
    program runs only its tensors are checked, not the spec it was traced for: one live learner per process.
    """

    live: Optional[CompiledLearner] = None

    def __init__(self, spec: Spec, params: Params, device: str, dtype: str) -> None:
        super().__init__(spec, params, device, dtype)
        torch.compiler.reset()
        CompiledLearner.live = self
        self.choose = compiled(traced_choose)
        self.descend = compiled(traced_descend)
        self.gradient = compiled(traced_gradient)

    def _act(self, obs: Tensor, noise: Optional[Tensor]) -> Batch:
        assert self is CompiledLearner.live
        return self.choose(self.model, self.flat, obs, noise)

    @torch.no_grad()
    def _update(self, batch: Batch, lr: float) -> Tensor:
        assert self is CompiledLearner.live
        (scalars,) = self.put(self._scalars(lr))
        place = self._await(scalars)
        report = self.descend(self.model, self.flat, self.target, self.m, self.v, scalars, batch)
        self._consumed(place)
        return report

    @torch.no_grad()
    def _gradient(self, batch: Batch) -> Tuple[Tensor, Tensor]:
        assert self is CompiledLearner.live
        return self.gradient(self.model, self.flat, self.target, batch)


class CapturedLearner(Learner):
    """The kernels of acting and of the whole update, captured once per batch's place and replayed."""

    def __init__(self, spec: Spec, params: Params, device: str, dtype: str) -> None:
        super().__init__(spec, params, device, dtype)
        self.acting: Dict[int, Graph] = {}
        self.updating: Dict[int, Graph] = {}
        self.acting_model = copy.copy(self.model)
        self.acting_model.convolve = convolve_by_product
        self.acting_model.product = split_product
        self.scalars = torch.zeros(2, dtype=self.model.dtype, device=self.device)
        self.scalars_host = torch.zeros(2, dtype=self.model.dtype, pin_memory=True)
        self.scalars_read = torch.cuda.Event()

    def _act(self, obs: Tensor, noise: Optional[Tensor]) -> Batch:
        graph = self.acting.get(obs.data_ptr())
        if graph is None:

            def act() -> Batch:
                return hosted(choose(self.acting_model, self.weights, obs, noise))

            graph = self.acting[obs.data_ptr()] = Graph(act)
        return graph()

    def _fetch(self, tensors: Batch) -> Tuple[np.ndarray, ...]:
        torch.cuda.current_stream().synchronize()
        # The next replay overwrites the graph's own output.
        return tuple([tensor.numpy().copy() for tensor in tensors])

    def _update(self, batch: Batch, lr: float) -> Tensor:
        self._set_scalars(lr)
        graph = self.updating.get(batch[0].data_ptr())
        if graph is None:

            def update() -> Tensor:
                report, gradient = self._gradient(batch)
                with torch.no_grad():
                    descend(self.model, self.flat, self.m, self.v, gradient, self.scalars)
                return report

            graph = self.updating[batch[0].data_ptr()] = Graph(update, mutated=(self.flat, self.m, self.v))
        return graph().clone()

    def _set_scalars(self, lr: float) -> None:
        scalars = self._scalars(lr)
        host = self.scalars_host.numpy()
        if not np.array_equal(scalars, host):
            self.scalars_read.synchronize()
            host[...] = scalars
            self.scalars.copy_(self.scalars_host, non_blocking=True)
            self.scalars_read.record()


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    # A pool of compile workers would stay beside the measured process, and in its memory.
    torch._inductor.config.compile_threads = 1
    # Checking everything else that was traced through would take another 35 µs per update.
    options = {"guard_filter_fn": torch.compiler.keep_tensor_guards_unsafe}
    return torch.compile(function, fullgraph=True, dynamic=False, options=options)


class Graph:
    """A function without arguments, captured as a CUDA graph; it reads and writes fixed addresses."""

    def __init__(self, function: Callable[[], Any], mutated: Tuple[Tensor, ...] = ()) -> None:
        before = [tensor.clone() for tensor in mutated]
        # Libraries set themselves up when they are first called, which must not be while capturing.
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                function()
        torch.cuda.current_stream().wait_stream(side)
        for tensor, value in zip(mutated, before):
            tensor.copy_(value)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.output = function()

    def __call__(self) -> Any:
        self.graph.replay()
        return self.output


def place(driver: Driver, memory: HostMemory) -> Place:
    """GPU memory with the layout of the host memory, so that one copy fills it."""
    block = torch.empty(memory.size, dtype=torch.uint8, device="cuda")
    views = tuple(
        block[offset : offset + array.nbytes].view(getattr(torch, array.dtype.name)).view(array.shape)
        for array, offset in zip(memory.arrays, memory.offsets)
    )
    return Place(driver, views, [(block.data_ptr(), 0, memory.size)])


def hosted(tensors: Batch) -> Batch:
    """Copies in page-locked memory, made by the device in its own time."""
    hosts = tuple(torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True) for tensor in tensors)
    for host, tensor in zip(hosts, tensors):
        host.copy_(tensor, non_blocking=True)
    return hosts


def to_host(tensors: Batch) -> Tuple[np.ndarray, ...]:
    """Blocks once, however many there are."""
    if not tensors[0].is_cuda:
        return tuple(tensor.numpy() for tensor in tensors)
    hosts = hosted(tensors)
    torch.cuda.current_stream().synchronize()
    return tuple(host.numpy() for host in hosts)
