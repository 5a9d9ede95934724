"""What the open loops of PyTorch share: programs that change tensors in place, and rounds of them.

On a CPU each program is called from Python; on a GPU a whole round of them is captured and replayed, random
numbers included.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, List, Sequence, Tuple

import numpy as np
import torch
from torch import Tensor

from rldyno_rig.backends.torch_compiled import Program, compile_alone, load_package, write_package
from rldyno_rig.open.problem import ACTING, LEARNING, Problem, Tally
from rldyno_rig.open.torch_net import Descent, Net
from rldyno_rig.spec import STORED, Params

Drawn = Dict[str, Tensor]
Plan = Tuple[Any, ...]
MOST_STEPS = {"cpu": 8, "cuda": 1}
"""Most steps of the environments in one program. On a CPU a call costs time; in a CUDA graph none does."""
WARM_ROUNDS = 3
"""Rounds before one is captured."""


class TorchLoop:
    """A loop without its algorithm."""

    round_steps: int

    def __init__(self, problem: Problem, weights: Params, first: np.ndarray) -> None:
        torch.set_num_threads(1)
        torch.manual_seed(problem.seed)
        torch.set_grad_enabled(False)
        compile_alone()
        self.problem, self.task, self.hyper = problem, problem.task, problem.hyper
        self.acts, self.learns = ACTING in problem.parts, LEARNING in problem.parts
        self.dtype, self.device = getattr(torch, STORED[problem.dtype]), problem.device
        self.kind: Dict[str, Any] = {"dtype": self.dtype, "device": self.device}
        self.net = Net(problem.spec)
        self.count = self.hyper.environments
        self.descent = self.net.start(self.tensor(self.net.pack(weights)))
        self.counts = torch.zeros(2, dtype=torch.int64, device=self.device)
        self.low, self.high = (
            self.tensor(np.array(edge)[:, None]) for edge in (self.task.low, self.task.high)
        )
        self.actions = torch.arange(self.task.actions, **self.kind)
        self.graphs: Dict[Plan, Any] = {}
        self.warm: Dict[Plan, int] = {}

    def tensor(self, array: Any) -> Tensor:
        """Contiguous: programs expect the strides for which they were compiled, and do not look."""
        return torch.tensor(np.asarray(array, order="C"), **self.kind)

    def number(self, value: int) -> Tensor:
        return torch.tensor(value, dtype=torch.int64, device=self.device)

    def at_once(self, steps: int) -> int:
        """Of so many steps: as many as one program does, so that none are left over."""
        return max(n for n in range(1, MOST_STEPS[self.device] + 1) if steps % n == 0)

    def compiled(self, function: Callable[..., Any], inputs: List[Tensor]) -> Program:
        """A program of this function for tensors like these.

        On a CPU a package of AOTInductor, whose C++ calls the kernels: they are small here, and Python takes
        longer to call them. In a CUDA graph nothing calls them.
        """
        if self.device != "cpu":
            whole = torch.compile(function, fullgraph=True, dynamic=False)
            return lambda given: whole(*given)
        with tempfile.TemporaryDirectory(prefix="rldyno-open-") as directory:
            path = Path(directory) / "program.pt2"
            write_package(path, function, inputs)
            return load_package(path)

    def run(self, rounds: int) -> None:
        for _ in range(rounds):
            plan = self.plan()
            if self.device == "cpu":
                self.round(self.draw(), plan)
            else:
                self._replay(plan)
        if self.device != "cpu":
            torch.cuda.synchronize()

    def _replay(self, plan: Plan) -> None:
        """On a GPU: a round as a graph, after some without."""
        if plan in self.graphs:
            self.graphs[plan].replay()
            return
        self.warm[plan] = self.warm.get(plan, 0) + 1
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self.round(self.draw(), plan)
        torch.cuda.current_stream().wait_stream(side)
        if self.warm[plan] == WARM_ROUNDS:
            graph = self.graphs[plan] = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                self.round(self.draw(), plan)

    def plan(self) -> Plan:
        """What the next round does, as far as it is known before; rounds of one plan are one graph."""
        return ()

    def draw(self) -> Drawn:
        raise NotImplementedError

    def round(self, drawn: Drawn, plan: Plan) -> Tensor:
        """In place; the actions, [time, environments]."""
        raise NotImplementedError

    def update_on(self, descent: Descent, batch: Sequence[Tensor], rate: Tensor, target: Tensor) -> Descent:
        """The update on a batch of the closed division."""
        raise NotImplementedError

    def tally(self) -> Tally:
        episodes, steps = self.counts.tolist()
        return Tally(episodes, steps)

    def first_of(self, time: int) -> Tensor:
        """[time, components, environments]: first states of episodes."""
        drawn = torch.rand(time, self.task.components, self.count, **self.kind)
        return drawn * (self.high - self.low) + self.low

    def observe(self, state: Tensor) -> Tensor:
        """Observations are float32 in every precision."""
        return state.to(torch.float32).to(self.dtype)

    def advance(self, state: Tensor, action: Tensor, length: Tensor) -> Tuple[Tensor, Tensor, Tensor, Tensor]:
        """(states before any is started again, lengths with this step, terminated, late)."""
        moved, terminated = self.task.advance(torch, tuple(state), action)
        length = length + 1
        return torch.stack(moved), length, terminated, length >= self.task.limit

    def taken(self, action: Tensor) -> Tensor:
        """[rows, actions]: 1 at the action of the row, else 0."""
        return (action[:, None] == self.actions).to(self.dtype)


def place(places: Iterable[Tensor], values: Iterable[Tensor]) -> None:
    """Each value into its place."""
    for tensor, value in zip(places, values):
        tensor.copy_(value)
