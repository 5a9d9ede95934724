"""What is asked of an open loop and what is found, as JSON between the lab and the rig."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any, Dict, Mapping, Optional, Tuple

from rldyno_rig.hyper import tuples
from rldyno_rig.open.curve import Curve, Goal

OPEN_FILE = "open.json"
OPEN_FOUND_FILE = "open_found.json"


@dataclass(frozen=True)
class OpenJob:
    backend: str
    """Module of `rldyno_rig.open`, such as `jax_`."""
    algorithm: str
    environment: str
    hyper: Mapping[str, Any]
    """Complete."""
    device: str = "cpu"
    dtype: str = "float32"
    agents: int = 1
    seed: int = 0
    seconds: float = 1.0
    """Length of one measurement."""
    repeats: int = 5
    rounds: int = 0
    """Rounds of one measurement, instead of `seconds`; 0: as many as take that long."""
    prove: bool = False
    """Compare with the closed division instead of measuring."""
    parts: bool = False
    """Also measure the loop without learning, and without acting."""
    learn: Optional[Goal] = None
    """Train up to this goal instead of measuring, and keep how every agent learned."""
    runs: int = 1
    """With `learn`: so many, one after the other, each with the next seed."""

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> OpenJob:
        known = _known(OpenJob, values)
        if known.get("learn") is not None:
            known["learn"] = Goal(**known["learn"])
        return OpenJob(**known)

    def to_json(self) -> Dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class OpenFound:
    compile_s: float
    """From the start of building the loop to the end of its first round."""
    steps_per_s: Tuple[float, ...]
    """Environment steps of all agents, one figure for each repeat."""
    steps: int
    """Environment steps that were measured."""
    returns: Tuple[Optional[float], ...]
    """Mean return of the episodes that ended in each repeat; None where none did."""
    versions: Mapping[str, str]
    device: str
    parts_us: Optional[Mapping[str, float]] = None
    """Part of the loop → microseconds of it in one step; None where it was not asked for."""

    @property
    def best(self) -> float:
        """Others on the machine only ever take time away."""
        return max(self.steps_per_s)

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> OpenFound:
        return OpenFound(**_known(OpenFound, values))

    def to_json(self) -> Dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class OpenLearned:
    curves: Tuple[Curve, ...]
    """One for each agent of each run."""

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> OpenLearned:
        return OpenLearned(tuple(map(Curve.from_json, values["curves"])))

    def to_json(self) -> Dict[str, Any]:
        return {"curves": [curve.to_json() for curve in self.curves]}


@dataclass(frozen=True)
class OpenProof:
    """How far an open loop is from the reference in float64."""

    environment_error: float
    """Largest difference of a state after one step, relative to its size."""
    ends_differ: int
    """Steps that ended an episode in one of the two only."""
    update_error: float
    """Largest difference of a weight after one update on the same batch."""
    actions: int
    """Actions that were compared, given the same random numbers."""
    first_other: Optional[int]
    """Number of the first action that differs; None when all are equal."""

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> OpenProof:
        return OpenProof(**_known(OpenProof, values))

    def to_json(self) -> Dict[str, Any]:
        return asdict(self)


def _known(kind: Any, values: Mapping[str, Any]) -> Dict[str, Any]:
    """The values that the dataclass has a field for; lists as tuples."""
    return {entry.name: tuples(values[entry.name]) for entry in fields(kind) if entry.name in values}
