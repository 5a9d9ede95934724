"""facts.json: what a worker reports about itself before it trains.

Unknown keys, of newer versions, are ignored. Missing keys, of older versions, get their defaults.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, Dict, Mapping, Optional, Tuple

from rldyno_rig.schema import SCHEMA_VERSION
from rldyno_rig.shape import Shape


@dataclass(frozen=True)
class WorkerFacts:
    """The content of facts.json."""

    python: Optional[str] = None
    numpy: Optional[str] = None
    versions: Mapping[str, str] = field(default_factory=dict)
    """Of the framework's packages."""
    backend: Mapping[str, Any] = field(default_factory=dict)
    """What the backend reports in its own words: device, threads, precision. Shown, not interpreted."""
    backend_sha256: str = ""
    reference_sha256: str = ""
    rig_sha256: str = ""
    observation_shape: Tuple[int, ...] = ()
    actions: int = 0
    network: str = ""
    """mlp or cnn."""
    parameters: Optional[int] = None
    """Number of weights."""
    updates_per_call: int = 1
    """More than 1: the learner makes the updates of several minibatches in one call, `update_many`."""
    loop: str = ""
    """What ran the hot parts of the shared loop: c or numpy. Not said by older versions."""
    shape: Optional[Shape] = None
    """In which the learner ran; None in records from before shapes were proven."""

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> WorkerFacts:
        known = {name: values[name] for name in _FIELDS if values.get(name) is not None}
        known["observation_shape"] = tuple(values.get("observation_shape") or ())
        if "shape" in known:
            known["shape"] = Shape.from_json(known["shape"])
        return WorkerFacts(**known)

    def to_json(self) -> Dict[str, Any]:
        written: Dict[str, Any] = {"schema": SCHEMA_VERSION}
        written.update({name: getattr(self, name) for name in _FIELDS})
        written["observation_shape"] = list(self.observation_shape)
        written["shape"] = None if self.shape is None else self.shape.to_json()
        return written


_FIELDS = tuple(entry.name for entry in fields(WorkerFacts))
