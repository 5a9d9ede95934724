"""For scripts without Gymnasium: they say themselves what they do. Elsewhere these calls do nothing.

from rldyno_rig.guest import report

report.begin()                       # training starts; otherwise with the first step
report.step(8)                       # after so many environment steps
report.episode(total, length)        # after the end of an episode
"""

from __future__ import annotations

from typing import Optional

from rldyno_rig.guest.watch import Watch

_watch: Optional[Watch] = None


def connect(watch: Watch) -> None:
    """The trial's own call."""
    global _watch
    _watch = watch


def begin() -> None:
    """Training starts here: what was before is start-up. From now on hooks see nothing."""
    if _watch is not None:
        _watch.silence()
        _watch.recorder.environment_ns = None
        _watch.begin()


def step(count: int = 1) -> None:
    """So many environment steps were taken. Ends the script at the first call after its budget is reached."""
    if _watch is not None:
        begin()
        _watch.before_step()
        _watch.stepped(int(count))


def episode(total: float, length: int, terminated: bool = True) -> None:
    """An episode with this return has ended."""
    if _watch is not None:
        begin()
        _watch.episode(0, _watch.steps, float(total), int(length), terminated)
