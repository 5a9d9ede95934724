"""PyTorch with CUDA graphs: the kernels of a call are recorded once and launched together."""

from __future__ import annotations

import copy
from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence, Tuple

import numpy as np
import torch
from torch import Tensor

from rldyno_rig.backends.torch_eager import Learner, hosted
from rldyno_rig.backends.torch_maths import (
    Batch,
    action_values,
    choose,
    convolve_by_product,
    descend,
)
from rldyno_rig.backends.torch_products import split_product
from rldyno_rig.reference.optimiser import step_scalars
from rldyno_rig.spec import Params, Spec


class CapturedLearner(Learner):
    """The kernels of acting and of the whole update, captured once per batch's place and replayed.

    A worker of a team has two graphs for an update: between them the host averages gradients with the others.
    """

    def __init__(self, spec: Spec, params: Params, device: str, dtype: str) -> None:
        super().__init__(spec, params, device, dtype)
        self.acting: Dict[int, Graph] = {}
        self.valuing: Dict[int, Graph] = {}
        self.updating: Dict[int, Graph] = {}
        self.acting_model = copy.copy(self.model)
        self.acting_model.convolve = convolve_by_product
        self.acting_model.product = split_product
        self.scalars: Dict[int, Scalars] = {}
        self.gradient = torch.zeros_like(self.flat)  # of teams
        self.stepping: Optional[Graph] = None

    def update_many(self, batches: Batch, lr: float) -> Tensor:
        """All in one graph, with one copy and one launch.

        179 µs per update, where single updates take 186 µs (H200, PPO, MLP 64-64, 16 × 128 rows).
        """
        steps = range(self.t + 1, self.t + 1 + batches[0].shape[0])
        self.t = steps[-1]
        self._begin_waiting()
        place = self._await(batches[0])
        report = self._replay(batches[0].data_ptr(), lambda: zip(*batches), steps, lr)
        self._consumed(place)
        return report

    def _act(self, obs: Tensor, noise: Optional[Tensor]) -> Batch:
        graph = self.acting.get(obs.data_ptr())
        if graph is None:

            @torch.inference_mode()
            def act() -> Batch:
                return hosted(choose(self.acting_model, self.weights, obs, noise))

            graph = self.acting[obs.data_ptr()] = Graph(act)
        return graph()

    def _values(self, obs: Tensor) -> Batch:
        graph = self.valuing.get(obs.data_ptr())
        if graph is None:

            @torch.inference_mode()
            def value() -> Batch:
                return hosted((action_values(self.acting_model, self.weights, obs),))

            graph = self.valuing[obs.data_ptr()] = Graph(value)
        return graph()

    def _update(self, batch: Batch, lr: float) -> Tensor:
        if self.average is not None:
            return self._update_together(batch, lr, self.average)
        return self._replay(batch[0].data_ptr(), lambda: [batch], [self.t], lr)

    def _fetch(self, tensors: Batch) -> Tuple[np.ndarray, ...]:
        torch.cuda.current_stream().synchronize()
        # The next replay overwrites the graph's own output.
        return tuple([tensor.numpy().copy() for tensor in tensors])

    def _replay(
        self, place: int, batches: Callable[[], Iterable[Batch]], steps: Sequence[int], lr: float
    ) -> Tensor:
        """These steps on the batches at this address, which are looked at only to capture their graph."""
        scalars = self._scalars_of(steps, lr)
        graph = self.updating.get(place)
        if graph is None:
            each = scalars.device.unbind()

            def update() -> Tensor:
                for batch, step in zip(batches(), each):
                    report, gradient = self._gradient(batch)
                    with torch.no_grad():
                        descend(self.model, self.flat, self.m, self.v, gradient, step)
                return report

            graph = self.updating[place] = Graph(update, mutated=(self.flat, self.m, self.v))
        return graph().clone()

    def _update_together(self, batch: Batch, lr: float, average: Callable[[Tensor], Tensor]) -> Tensor:
        scalars = self._scalars_of([self.t], lr)
        graph = self.updating.get(batch[0].data_ptr())
        if graph is None:

            def differentiate() -> Tensor:
                report, gradient = self._gradient(batch)
                self.gradient.copy_(gradient)
                return report

            graph = self.updating[batch[0].data_ptr()] = Graph(differentiate)
        report = graph().clone()
        average(self.gradient)
        if self.stepping is None:

            @torch.no_grad()
            def step() -> None:
                (given,) = scalars.device.unbind()
                descend(self.model, self.flat, self.m, self.v, self.gradient, given)

            self.stepping = Graph(step, mutated=(self.flat, self.m, self.v, self.gradient))
        self.stepping()
        return report

    def _scalars_of(self, steps: Sequence[int], lr: float) -> Scalars:
        scalars = self.scalars.get(len(steps))
        if scalars is None:
            scalars = self.scalars[len(steps)] = Scalars(len(steps), self.model.dtype)
        scalars.set([step_scalars(self.spec, t, lr) for t in steps])
        return scalars


class Scalars:
    """What the optimiser reads at each of some steps, on the device at an address that graphs know."""

    def __init__(self, steps: int, dtype: torch.dtype) -> None:
        self.device = torch.zeros((steps, 2), dtype=dtype, device="cuda")
        self.host = torch.zeros((steps, 2), dtype=dtype, pin_memory=True)
        self.copied = torch.cuda.Event()

    def set(self, values: List[Tuple[float, float]]) -> None:
        host = self.host.numpy()
        given = np.array(values, host.dtype)
        if not np.array_equal(given, host):
            self.copied.synchronize()
            host[...] = given
            self.device.copy_(self.host, non_blocking=True)
            self.copied.record()


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
