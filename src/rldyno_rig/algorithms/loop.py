"""What every train loop does once a second and at its end."""

from __future__ import annotations

from typing import Any, Optional

from rldyno_rig.algorithms.algorithm import Job
from rldyno_rig.algorithms.ensemble import members_of
from rldyno_rig.clock import OTHER, READ, UPDATE


def beat(job: Job, step: int, handle: Any) -> None:
    """Read the loss of the last update, if there was one, and write the progress."""
    recorder = job.recorder
    recorder.clock.mark(OTHER)
    loss = _last_loss(job, handle)
    recorder.beat(recorder.clock.mark(READ), step, loss)
    recorder.clock.mark(OTHER)


def finish(job: Job, step: int, acts: int, handle: Any = None, loss: Optional[float] = None) -> int:
    """Finish the device's work and close the records; returns `step`.

    The loss of the last update is `loss` where the loop has read it, else what `handle` holds.
    """
    recorder = job.recorder
    recorder.clock.mark(OTHER)
    job.learner.drain()
    recorder.clock.mark(UPDATE)
    if handle is not None:
        loss = _last_loss(job, handle)
    recorder.acts = acts
    recorder.close(recorder.clock.mark(READ), step, loss)
    return step


def _last_loss(job: Job, handle: Any) -> Optional[float]:
    if handle is None:
        return None
    job.recorder.reads += len(members_of(job.learner))
    return job.learner.read(handle)[0]
