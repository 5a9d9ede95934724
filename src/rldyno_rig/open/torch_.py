"""The open division in PyTorch: environments and algorithm as tensors, in a few compiled programs."""

from __future__ import annotations

from typing import Any, Dict, Sequence, Tuple

import numpy as np
import torch
from torch import Tensor

from rldyno_rig.open.problem import Problem, Unsupported
from rldyno_rig.open.torch_a2c import TorchA2c
from rldyno_rig.open.torch_dqn import TorchDqn
from rldyno_rig.open.torch_loop import TorchLoop
from rldyno_rig.open.torch_net import Descent
from rldyno_rig.open.torch_ppo import TorchPpo
from rldyno_rig.spec import Params

FORMS: Dict[str, Any] = {"ppo": TorchPpo, "dqn": TorchDqn, "a2c": TorchA2c}

LEAVES_PARTS_OUT = True
"""The loops here run the parts of a problem alone."""


def make(problem: Problem) -> TorchLoop:
    if problem.agents > 1:
        raise Unsupported("the open form of PyTorch trains one agent at a time")
    return started(problem, problem.first_weights()[0], problem.first_states(0))


PROGRAMS = ("collecting", "finishing", "updating", "programs")
"""What loops of one problem compile alike: all that changes is given to these."""


def again(problem: Problem, loop: TorchLoop) -> TorchLoop:
    """A new loop with another seed, and with the programs of this one."""
    made = make(problem)
    vars(made).update({name: vars(loop)[name] for name in PROGRAMS if name in vars(loop)})
    return made


def started(problem: Problem, weights: Params, first: np.ndarray) -> TorchLoop:
    loop: TorchLoop = FORMS[problem.algorithm](problem, weights, first)
    return loop


def versions() -> Dict[str, str]:
    return {"torch": torch.__version__, "numpy": np.__version__}


def device_name(device: str) -> str:
    return "cpu" if device == "cpu" else torch.cuda.get_device_name()


# For proofs: the parts of a loop, on given numbers. What is compiled is what runs.


def advance(problem: Problem, states: np.ndarray, actions: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
    numbers = states, actions.astype(states.dtype)
    given = [torch.tensor(array, device=problem.device) for array in numbers]
    step = torch.compile(lambda state, action: problem.task.advance(torch, tuple(state), action))
    moved, terminated = step(*given)
    return torch.stack(moved).cpu().numpy(), terminated.cpu().numpy()


def updated(problem: Problem, weights: Params, batches: Sequence[Any], rate: float) -> Params:
    loop = started(problem, weights, problem.first_states(0))
    descent, target, speed = loop.descent, loop.descent.flat.clone(), loop.tensor(rate)
    given = [[loop.tensor(array) for array in batch] for batch in batches]

    def update(*tensors: Tensor) -> Tuple[Tensor, ...]:
        return tuple(loop.update_on(Descent(*tensors[:4]), tensors[4:], speed, target))

    program = loop.compiled(update, [*descent, *given[0]])
    for batch in given:
        descent = Descent(*program([*descent, *batch]))
    return loop.net.unpack(descent.flat.cpu().numpy())


def replay(
    problem: Problem, weights: Params, first: np.ndarray, draws: Sequence[Dict[str, np.ndarray]]
) -> np.ndarray:
    """Actions [step, environments] of the loop when its random numbers are these."""
    loop = started(problem, weights, first)
    taken = []
    for drawn in draws:
        numbers = {name: loop.tensor(array) for name, array in drawn.items()}
        if "order" in numbers:
            numbers["order"] = numbers["order"].to(torch.int64)
        taken.append(loop.round(numbers, loop.plan()).cpu().numpy())
    return np.concatenate(taken).astype(np.int64)
