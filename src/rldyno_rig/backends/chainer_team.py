"""How Chainer averages a flat gradient over the workers of a team, in place.

`native` is ChainerMN with its communicator `naive`, the one that it has for CPUs. It rests on the same MPI as
`host`, so `mpiexec` starts these workers, too.
"""

from __future__ import annotations

import functools
from typing import Any, Callable, Tuple

import chainer
import numpy as np

from rldyno_rig.team import host
from rldyno_rig.team.team import NATIVE, Team

Reduce = Callable[[np.ndarray], np.ndarray]
CHAINERMN = "chainermn, mpi"


def averaging(team: Team, gradient: np.ndarray) -> Tuple[Reduce, str]:
    """The team's reduction of this array, and what carries it. Raises TeamError."""
    # Also for ChainerMN, because it says what is wrong where the workers are not those of MPI.
    by_mpi = host.averaging(team.rank, team.size)
    if team.collective == NATIVE:
        return by_chainermn(communicator(team), gradient), CHAINERMN
    return by_mpi, host.MEANS


def by_chainermn(communicator: Any, like: np.ndarray) -> Reduce:
    """To ChainerMN the gradient is that of a model with one parameter: one message for each update."""
    model = chainer.Link()
    with model.init_scope():
        model.flat = chainer.Parameter(np.zeros_like(like))

    def average(gradient: np.ndarray) -> np.ndarray:
        model.flat.grad = gradient
        communicator.multi_node_mean_grad(model)
        return gradient

    return average


@functools.lru_cache(maxsize=None)
def communicator(team: Team) -> Any:
    """One for all learners of this process."""
    import chainermn

    team.on_finish(host.leave)
    return chainermn.create_communicator("naive")
