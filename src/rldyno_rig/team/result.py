"""`team` of result.json: what communication took."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, Mapping, Tuple


@dataclass(frozen=True)
class TeamResult:
    size: int
    collective: str
    means: str
    """What carried the gradients: gloo, nccl, mpi …"""
    reductions: int
    bytes: int
    """Of one gradient."""
    communicate_ns: Tuple[int, ...]
    """Per rank: inside reductions, waiting included."""
    wait_ns: Tuple[int, ...]
    """Per rank: of that, waiting for the slowest. The rank that comes last to a reduction does not wait, so
    the shortest time of all ranks is what the reduction itself takes."""

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> TeamResult:
        return TeamResult(
            size=int(values["size"]),
            collective=str(values["collective"]),
            means=str(values["means"]),
            reductions=int(values["reductions"]),
            bytes=int(values["bytes"]),
            communicate_ns=tuple(map(int, values["communicate_ns"])),
            wait_ns=tuple(map(int, values["wait_ns"])),
        )

    def to_json(self) -> Dict[str, Any]:
        return {
            "size": self.size,
            "collective": self.collective,
            "means": self.means,
            "reductions": self.reductions,
            "bytes": self.bytes,
            "communicate_ns": list(self.communicate_ns),
            "wait_ns": list(self.wait_ns),
        }
