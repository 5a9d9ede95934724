"""PyTorch compiled by Inductor: acting is one program, and so is a whole update.

A worker of a team has two for an update: what comes before and after the gradients are averaged.

Both modes compile the same functions to the same kernels. They differ in what calls the kernels: Python that
Inductor writes, or C++ inside an AOTInductor package. Shapes are fixed: a program per number of rows.
"""

from __future__ import annotations

import functools
import hashlib
import os
import tempfile
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import torch
from torch import Tensor

from rldyno_rig.backends.torch_eager import Learner
from rldyno_rig.backends.torch_maths import (
    Batch,
    Model,
    traced_choose,
    traced_descend,
    traced_gradient,
    traced_step,
    traced_values,
)
from rldyno_rig.identity import hashes
from rldyno_rig.reference.optimiser import step_scalars
from rldyno_rig.spec import Params, Spec

Program = Callable[[List[Tensor]], Sequence[Tensor]]
"""Consumes its list of inputs; those that an update changes are changed in place."""
Traced = Callable[..., Batch]


class CompiledLearner(Learner):
    """What `torch.compile` compiles, called without what it puts around it.

    `make_fx` traces instead of Dynamo, and `_compile` keeps what Inductor returns: kernels and the Python
    that calls them. Guards would only check what is true of every call here: shapes, types and the spec.
    act 1: 27 µs, where eager mode takes 36 and `torch.compile(…).aot_compile(…)` without guards 46. The
    latter is still what a GPU runs: only that was proven there.
    `cpp_wrapper` would save 10 µs more, but triples the first call; `max_autotune` is slower.
    """

    def __init__(self, spec: Spec, params: Params, device: str, dtype: str) -> None:
        super().__init__(spec, params, device, dtype)
        self.acting: Dict[int, Program] = {}
        self.valuing: Dict[int, Program] = {}
        self.updating: Dict[int, Program] = {}
        self.differentiating: Dict[int, Program] = {}
        self.stepping: Optional[Program] = None
        self.scalars = torch.zeros(2, dtype=self.model.dtype)
        self.scalars_host = self.scalars.numpy()

    def _act(self, obs: Tensor, noise: Optional[Tensor]) -> Batch:
        inputs = [self.flat, obs] if noise is None else [self.flat, obs, noise]
        rows = obs.shape[0]
        program = self.acting.get(rows)
        if program is None:
            program = self.acting[rows] = self._compile(traced_choose, inputs)
        return tuple(program(inputs))

    def _values(self, obs: Tensor) -> Batch:
        inputs = [self.flat, obs]
        rows = obs.shape[0]
        program = self.valuing.get(rows)
        if program is None:
            program = self.valuing[rows] = self._compile(traced_values, inputs)
        return tuple(program(inputs))

    def _update(self, batch: Batch, lr: float) -> Tensor:
        if self.on_gpu:
            (scalars,) = self.put(self._scalars(lr))
            place = self._await(scalars)
        else:
            # An update on a CPU is done when it returns: nothing reads these any more.
            scalars, place = self.scalars, None
            self.scalars_host[:] = step_scalars(self.spec, self.t, lr)
        if self.average is None:
            report = self._descend(batch, scalars)
        else:
            report, gradient = self._gradient(batch)
            self._step(self.average(gradient), scalars)
        self._consumed(place)
        return report

    def _gradient(self, batch: Batch) -> Tuple[Tensor, Tensor]:
        inputs = [self.flat, self.target, *batch]
        rows = batch[0].shape[0]
        program = self.differentiating.get(rows)
        if program is None:
            program = self.differentiating[rows] = self._compile(traced_gradient, inputs)
        report, gradient = program(inputs)
        return report, gradient

    def _descend(self, batch: Batch, scalars: Tensor) -> Tensor:
        inputs = [self.flat, self.target, self.m, self.v, scalars, *batch]
        rows = batch[0].shape[0]
        program = self.updating.get(rows)
        if program is None:
            program = self.updating[rows] = self._compile(traced_descend, inputs)
        (report,) = program(inputs)
        return report

    def _step(self, gradient: Tensor, scalars: Tensor) -> None:
        inputs = [self.flat, self.m, self.v, gradient, scalars]
        if self.stepping is None:
            self.stepping = self._compile(traced_step, inputs)
        self.stepping(inputs)

    def _model(self, function: Traced) -> Model:
        return self.learning_model if function in (traced_gradient, traced_descend) else self.model

    def _compile(self, function: Traced, inputs: List[Tensor]) -> Program:
        compile_alone()
        compiler = compile_with_dynamo if self.on_gpu else compile_straight
        return compiler(function, self._model(function), inputs)


class PackagedLearner(CompiledLearner):
    """AOTInductor: a package of C++, called straight through its loader. act 1: 16 µs, update 64: 128 µs.

    Compiling takes longer than for `torch.compile`; a package that was kept is loaded in 5 ms. CPUs only:
    with PyTorch 2.11 the process of a package for an H200 ended with a segmentation fault.
    """

    def _compile(self, function: Traced, inputs: List[Tensor]) -> Program:
        path = packages() / (self._identity(function, inputs) + ".pt2")
        if not path.exists():
            write_package(path, functools.partial(function, self._model(function)), inputs)
        return load_package(path)

    def _identity(self, function: Traced, inputs: List[Tensor]) -> str:
        """Of all that decides what a package computes and for which machine it is."""
        decides = (
            sorted(hashes(__file__).items()),
            self.spec,
            function.__name__,
            [(tuple(tensor.shape), tensor.stride(), str(tensor.dtype)) for tensor in inputs],
            torch.__version__,
            torch.backends.cpu.get_cpu_capability(),
            torch.get_num_threads(),
        )
        return hashlib.sha256(repr(decides).encode()).hexdigest()[:32]


def packages() -> Path:
    """Beside what Inductor keeps. Asking Inductor itself would import it, which takes 1.4 s."""
    kept = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    home = Path(kept or Path(tempfile.gettempdir()) / "torchinductor_{}".format(os.getuid())) / "packages"
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    return home


def trace(function: Callable[..., Any], inputs: List[Tensor]) -> Tuple[Any, List[Tensor]]:
    """The function as a graph for tensors like these. Tracing runs it, so it gets copies of them."""
    from torch.fx.experimental.proxy_tensor import make_fx

    copies = [tensor.clone() for tensor in inputs]
    with torch.no_grad():
        return make_fx(function)(*copies), copies


def write_package(path: Path, function: Callable[..., Any], inputs: List[Tensor]) -> None:
    """Compile the function for tensors like these."""
    from torch._inductor import aoti_compile_and_package

    compile_alone()
    graph, copies = trace(function, inputs)
    with torch.no_grad():
        exported = torch.export.export(graph, tuple(copies), strict=False)
    # Another process may be writing the same package, or read it before it is whole.
    partial = path.with_name("{}-{}.pt2".format(path.stem, os.getpid()))
    aoti_compile_and_package(exported, package_path=str(partial))
    partial.replace(path)


def load_package(path: Path) -> Program:
    # (path, name inside the package, no locks, one runner, the device it was compiled for)
    loader = torch._C._aoti.AOTIModelPackageLoader(str(path), "model", True, 1, -1)
    program: Program = loader.boxed_run
    return program


def compile_straight(function: Traced, model: Model, inputs: List[Tensor]) -> Program:
    """Traced by `make_fx`, and what Inductor returns, with no layer around it."""
    from torch._inductor import compile_fx

    graph, copies = trace(functools.partial(function, model), inputs)
    made: List[Any] = []

    def compile_inner(*arguments: Any, **options: Any) -> Any:
        made.append(compile_fx.compile_fx_inner(*arguments, **options))
        return made[-1]

    with torch.no_grad():
        compile_fx.compile_fx(graph, copies, inner_compile=compile_inner)
    (compiled,) = made
    program: Program = compiled.current_callable
    # Tensors of the model that the function reads, such as the support of Rainbow's returns.
    constants = list(graph.buffers())
    return (lambda given: program(constants + given)) if constants else program


def compile_with_dynamo(function: Traced, model: Model, inputs: List[Tensor]) -> Program:
    """`torch.compile(…).aot_compile(…)`: called without Dynamo's frame hook and guards."""
    import torch._dynamo.config

    torch._dynamo.config.enable_aot_compile = True  # off by default in PyTorch 2.11

    def traced(*tensors: Tensor) -> Batch:
        return function(model, *tensors)

    options = {"guard_filter_fn": torch.compiler.skip_all_guards_unsafe}
    whole: Any = torch.compile(traced, fullgraph=True, dynamic=False, options=options)
    with torch.no_grad():
        program = whole.aot_compile((tuple(inputs), {}))
    program.disable_guard_check()
    return lambda given: program(*given)


def compile_alone() -> None:
    """A pool of compile workers would stay beside the measured process, and in its memory."""
    import torch._inductor.config

    torch._inductor.config.compile_threads = 1
