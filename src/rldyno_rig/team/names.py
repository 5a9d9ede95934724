"""Names that the workers of a team and those who start them share; nothing is imported for them."""

from __future__ import annotations

from pathlib import Path

NONE, NATIVE, HOROVOD, HOST = "none", "native", "horovod", "host"
COLLECTIVES = (NATIVE, HOROVOD, HOST)
"""How a team averages gradients: with what the framework has, with Horovod, or on host arrays by MPI."""

RANK_VARIABLE = "RLDYNO_RANK"
"""Without it the rank is that of MPI's process starter, PMI_RANK."""
SIZE_VARIABLE = "RLDYNO_WORKERS"
MEETING_VARIABLE = "RLDYNO_MEETING"
"""Path of the file through which the workers of one attempt meet."""
ADDRESS_VARIABLE = "RLDYNO_ADDRESS"
"""At which the other workers reach rank 0; this machine when unset."""
SUBDIRECTORY = "workers"
"""Of a trial's directory: the records of the ranks after 0."""
LOST = "lost another worker"
"""In the message of a worker that did not fail itself: another was gone."""


def home(directory: Path, rank: int) -> Path:
    """Where a rank writes its records."""
    return directory / SUBDIRECTORY / str(rank) if rank else directory
