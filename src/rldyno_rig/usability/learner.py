"""What the parts of `usability` share: a real learner, times, sizes and differences."""

from __future__ import annotations

import statistics
import time
from pathlib import Path
from typing import Any, Callable, List, Tuple

import numpy as np

from rldyno_rig import hyper
from rldyno_rig.algorithms import ALGORITHMS, synthetic_batch, update_rows
from rldyno_rig.job_files import UsabilityJob
from rldyno_rig.loading import load_backend
from rldyno_rig.spec import Spec, draw_params

DTYPE = "float32"
REPEATS = 5


def built(job: UsabilityJob, network: str, seed: int = 0) -> Tuple[Any, Spec, Any]:
    """The backend, the spec of a DQN and its learner, as a trial makes them."""
    backend = load_backend(job.backend)
    agent = ALGORITHMS["dqn"]
    if network == hyper.CNN:
        spec = agent.spec(agent.hyper(convolutions=hyper.CNN_SMALL), (4, 84, 84), agent.image_dtype, 6)
    else:
        spec = agent.spec(agent.hyper(), (4,), "float32", 2)
    params = draw_params(spec, np.random.default_rng(seed))
    return backend, spec, backend.make(spec, params, job.mode, "cpu", DTYPE)


def updating(job: UsabilityJob, network: str) -> Tuple[Any, Callable[[], Any]]:
    """A learner, and a function that makes one update with it and returns its handle."""
    backend, spec, learner = built(job, network)
    batch = synthetic_batch(spec, np.random.default_rng(0), DTYPE, backend.INDEX_DTYPE, update_rows(spec))
    return learner, lambda: learner.update(learner.put(*batch), spec.hyper.learning_rate)


def largest(expected: List[np.ndarray], found: Any) -> float:
    """Largest absolute difference; outputs of another number or shape are an error, not a difference."""
    arrays = [np.asarray(array) for array in found]
    shapes, wanted = [array.shape for array in arrays], [array.shape for array in expected]
    if shapes != wanted:
        raise ValueError("it returns outputs of shapes {}, not {}".format(shapes, wanted))
    return max(float(np.max(np.abs(one - other))) for one, other in zip(expected, arrays))


def size_of(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


def timed(action: Callable[[], Any]) -> float:
    """Median seconds of a few calls, after one that is not counted."""
    action()
    spent = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        action()
        spent.append(time.perf_counter() - began)
    return statistics.median(spent)
