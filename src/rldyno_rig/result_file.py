"""result.json: what a worker writes when it ends. The trial runner copies it into outcome.json.

Unknown keys, of newer versions, are ignored. Missing optional keys, of older versions, get their defaults.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, Dict, Mapping, Optional

from rldyno_rig.team.result import TeamResult

Section = Mapping[str, Any]

ANOTHER = "another worker met a value that is not finite"
"""Message of a worker of a team that a NaN ended, but not one of its own."""


@dataclass(frozen=True)
class WorkerResult:
    """The content of result.json. Times are counted from the start of the worker process."""

    reason: str
    """One of DONE_REASONS or FAILED_REASONS of `rldyno_rig.schema`."""
    message: str = ""
    steps: int = 0
    """Environment steps."""
    episodes: Optional[int] = None
    updates: Optional[int] = None
    startup_ns: Mapping[str, int] = field(default_factory=dict)
    """Part of the start-up → its duration."""
    train_start_ns: Optional[int] = None
    """Time of the first training step."""
    train_ns: int = 0
    """Duration of the training loop."""
    phases_ns: Mapping[str, int] = field(default_factory=dict)
    """Phase of the training loop → time spent in it."""
    calls: Mapping[str, int] = field(default_factory=dict)
    """Phase → how often the loop called what the phase times; empty in older records. See `phase_calls`."""
    learning: Optional[Section] = None
    """Step and time of the first update; None without one."""
    threshold: Optional[Section] = None
    """Whether and when the return of the stop rule was reached; None without a stop rule."""
    final_return: Optional[float] = None
    memory: Optional[Section] = None
    transfer: Optional[Section] = None
    device_memory: Optional[Section] = None
    team: Optional[TeamResult] = None
    """What communication took; None of one worker."""

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> WorkerResult:
        known = {name: values[name] for name in _FIELDS if name in values}
        if known.get("team") is not None:
            known["team"] = TeamResult.from_json(known["team"])
        return WorkerResult(**known)

    def to_json(self) -> Dict[str, Any]:
        written = {name: getattr(self, name) for name in _FIELDS}
        written["team"] = None if self.team is None else self.team.to_json()
        return written

    @property
    def reached_threshold_ns(self) -> Optional[int]:
        """When the return of the stop rule was reached; None if it was not."""
        return self.threshold.get("time_ns") if self.threshold and self.threshold.get("reached") else None


def crashed(message: str) -> Dict[str, Any]:
    """What a worker writes that an exception ended. The file has no measured values, not even zeros."""
    return {"reason": "crashed", "message": message}


_FIELDS = tuple(entry.name for entry in fields(WorkerResult))
