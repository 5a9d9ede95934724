"""PyTorch with CUDA graphs: the kernels of a call are recorded once and launched together."""

from __future__ import annotations

import copy
from typing import Any, Callable, Dict, Optional, Tuple

import numpy as np
import torch
from torch import Tensor

from rldyno_rig.backends.torch_eager import Learner, hosted
from rldyno_rig.backends.torch_maths import Batch, choose, convolve_by_product, descend, split_product
from rldyno_rig.spec import Params, Spec


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

            @torch.inference_mode()
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
