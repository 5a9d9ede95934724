"""The open division in NumPy: environments as arrays, and as little as possible around them.

Networks and updates are those of the closed division's NumPy contestant, which are NumPy's best already.
"""

from __future__ import annotations

from typing import Any, Dict, Sequence, Tuple

import numpy as np

from rldyno_rig.open.numpy_dqn import NumpyDqn
from rldyno_rig.open.numpy_loop import Drawn, NumpyLoop
from rldyno_rig.open.numpy_rollout import NumpyA2c, NumpyPpo
from rldyno_rig.open.problem import Problem, Unsupported
from rldyno_rig.spec import Params

LEAVES_PARTS_OUT = True
"""The loops here run the parts of a problem alone."""


def make(problem: Problem) -> NumpyLoop:
    if problem.agents > 1:
        raise Unsupported("NumPy trains one agent at a time")
    if problem.device != "cpu":
        raise Unsupported("NumPy has no {}".format(problem.device))
    return FORMS[problem.algorithm](problem, problem.first_weights()[0], problem.first_states(0))


def versions() -> Dict[str, str]:
    return {"numpy": np.__version__}


def device_name(device: str) -> str:
    return device


FORMS: Dict[str, Any] = {"ppo": NumpyPpo, "dqn": NumpyDqn, "a2c": NumpyA2c}


# For proofs: the parts of a loop, on given numbers.


def advance(problem: Problem, states: np.ndarray, actions: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
    moved, terminated = problem.task.advance(np, tuple(states), actions.astype(states.dtype))
    return np.stack(moved), terminated


def updated(problem: Problem, weights: Params, batches: Sequence[Any], rate: float) -> Params:
    loop = FORMS[problem.algorithm](problem, weights, problem.first_states(0))
    for batch in batches:
        loop.learner.update(batch, rate)
    params: Params = loop.learner.state()["params"]
    return params


def replay(problem: Problem, weights: Params, first: np.ndarray, draws: Sequence[Drawn]) -> np.ndarray:
    loop = FORMS[problem.algorithm](problem, weights, first)
    return np.concatenate([loop.round(drawn) for drawn in draws])
