"""What algorithms that learn from a replay memory share."""

from __future__ import annotations

from rldyno_rig.algorithms.algorithm import Job
from rldyno_rig.hyper import Replayed
from rldyno_rig.parts.replay import Replay


def memory_of(job: Job, rows_at_once: int = 1) -> Replay:
    """An empty memory, sized as the trial's hyper-parameters and observations say."""
    network = job.spec.network
    return Replay(
        job.spec.hyper.capacity,
        rows_at_once,
        network.observation_shape,
        network.observation_dtype,
        job.dtype,
        job.index_dtype,
    )


def first_update(hyper: Replayed, environments: int) -> int:
    """The environment step from which the memory holds enough for a batch."""
    return max(hyper.learning_starts, hyper.batch_size, environments * hyper.n_step)
