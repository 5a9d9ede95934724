"""The algorithms: one file each, found by listing this folder."""

from __future__ import annotations

import contextlib
import importlib
import pkgutil
from typing import Any, Iterator

import numpy as np

from rldyno_rig.algorithms.algorithm import Algorithm, Job, Registry, many_of
from rldyno_rig.backends.contract import Agent
from rldyno_rig.spec import Spec
from rldyno_rig.synthetic import Draw

LEARNERS: Registry = {}
"""Name → everything that a backend computes: the agents, and the classifier that `rldyno nets` times."""
ALGORITHMS: Registry = {}
"""Name → the agents, which a study can train."""


def add(algorithm: Algorithm) -> None:
    LEARNERS[algorithm.name] = algorithm
    if algorithm.train is not None:
        ALGORITHMS[algorithm.name] = algorithm


@contextlib.contextmanager
def registered(algorithm: Algorithm) -> Iterator[None]:
    """An algorithm from outside this folder takes part within the `with` block."""
    add(algorithm)
    try:
        yield
    finally:
        LEARNERS.pop(algorithm.name, None)
        ALGORITHMS.pop(algorithm.name, None)


def title_of(name: str) -> str:
    """As reports write it; an algorithm that no longer exists keeps the name of its records."""
    return LEARNERS[name].title if name in LEARNERS else name


def synthetic_batch(spec: Spec, rng: np.random.Generator, dtype: str, index_dtype: str, rows: int) -> Any:
    """A batch of plausible numbers: for warming up, for proofs, and for timing updates alone."""
    return LEARNERS[spec.algorithm].synthetic(Draw(spec, rng, dtype, index_dtype, rows))


def stacked_batch(
    spec: Spec, rng: np.random.Generator, dtype: str, index_dtype: str, rows: int, count: int
) -> Any:
    """So many synthetic batches as one, with an axis more in front: what `update_many` is given."""
    batches = [synthetic_batch(spec, rng, dtype, index_dtype, rows) for _ in range(count)]
    return spec.batch(*map(np.stack, zip(*batches)))


def train(job: Job) -> int:
    """Run the loop of the job's algorithm until a budget is reached; the environment steps taken."""
    loop = LEARNERS[job.spec.algorithm].train
    assert loop is not None, job.spec.algorithm + " is no agent"
    return loop(job)


def update_rows(spec: Spec) -> int:
    """Rows of one update."""
    return LEARNERS[spec.algorithm].rows(spec.hyper)


def updates_per_call(spec: Spec, learner: Agent) -> int:
    """How many updates one call makes in training."""
    count = LEARNERS[spec.algorithm].at_once(spec)
    return 1 if many_of(learner, count) is None else count


def _find() -> None:
    for module in pkgutil.iter_modules(__path__):
        found = importlib.import_module("{}.{}".format(__name__, module.name))
        if hasattr(found, "ALGORITHM"):
            add(found.ALGORITHM)


_find()
