"""Several workers of a synthetic trial: known speed-ups and known communication."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from rldyno_rig import schema
from synthetic_series import nanoseconds

EFFICIENCY = {"native": 0.9, "horovod": 0.7, "host": 0.8}
"""Of two workers with weak scaling; strong scaling has half of it."""
COMMUNICATION = 0.2
"""Share of the training of worker 0 that it communicates. Half of this is waiting, a quarter agreement."""
MEANS = {"native": "gloo", "horovod": "gloo", "host": "mpi"}
BYTES = 69_640


@dataclass(frozen=True)
class Team:
    workers: int = 1
    collective: str = "none"
    scaling: str = "weak"

    @classmethod
    def of(cls, trial: Mapping[str, Any]) -> Team:
        return cls(trial["workers"], trial["collective"], trial["scaling"])

    @property
    def slug(self) -> str:
        """In the id of a trial."""
        return "" if self.workers == 1 else f".w{self.workers}.{self.collective}.{self.scaling}"

    @property
    def speedup(self) -> float:
        if self.workers == 1:
            return 1.0
        return self.workers * EFFICIENCY[self.collective] * (0.5 if self.scaling == "strong" else 1.0)

    def trial_json(self) -> dict[str, Any]:
        return {"workers": self.workers, "collective": self.collective, "scaling": self.scaling}

    def split(self, phases: np.ndarray) -> float | None:
        """Takes communication from the phases, in place: its seconds; None for one worker."""
        if self.workers == 1:
            return None
        spent = COMMUNICATION * float(phases.sum())
        phases *= 1 - COMMUNICATION
        return spent

    def phase_json(self, communicating: float | None) -> dict[str, int]:
        return {} if communicating is None else {schema.COMMUNICATE: nanoseconds(communicating)}

    def result_json(self, communicating: float | None, reductions: int) -> dict[str, Any] | None:
        """Worker 0 waits for half of its communication; the last one does not wait."""
        if communicating is None:
            return None
        reducing = 0.25 * communicating
        waits = [0.5 * communicating] * (self.workers - 1) + [0.0]
        return {
            "size": self.workers,
            "collective": self.collective,
            "means": MEANS[self.collective],
            "reductions": reductions,
            "bytes": BYTES,
            "communicate_ns": [nanoseconds(reducing + wait) for wait in waits],
            "wait_ns": [nanoseconds(wait) for wait in waits],
        }
