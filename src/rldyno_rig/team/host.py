"""Averaging host arrays over MPI: the collective that every backend can use."""

from __future__ import annotations

from typing import Callable

import numpy as np

from rldyno_rig.team.link import TeamError

MEANS = "mpi"


def averaging(rank: int, size: int) -> Callable[[np.ndarray], np.ndarray]:
    """In place: a contiguous array → the mean of those of all ranks. Raises TeamError."""
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    if (world.rank, world.size) != (rank, size):
        raise TeamError(
            "MPI sees worker {} of {}, not {} of {}: start the workers through mpiexec".format(
                world.rank, world.size, rank, size
            )
        )
    reduce, here, share = world.Allreduce, MPI.IN_PLACE, 1.0 / size

    def average(gradient: np.ndarray) -> np.ndarray:
        reduce(here, gradient)
        gradient *= share
        return gradient

    return average


def leave() -> None:
    """Before the process ends: mpiexec takes a process that ends without it for a crash."""
    from mpi4py import MPI

    MPI.Finalize()
