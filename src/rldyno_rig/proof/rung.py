"""One step of the ladder: how far a quantity is from the reference."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Dict, Mapping, Optional


def largest(*errors: float) -> float:
    """NaN where any of them is: `max` would keep it only in the first place."""
    return math.nan if any(map(math.isnan, errors)) else max(errors)


@dataclass(frozen=True)
class Rung:
    name: str
    dtype: str
    error: float
    """Largest relative difference from the reference."""
    tolerance: Optional[float]
    """None: the error is reported, and has no limit."""
    passed: bool

    @property
    def holds(self) -> bool:
        """It is marked as passed, and its numbers agree with the mark."""
        return self.passed and (self.tolerance is None or self.error <= self.tolerance)

    def to_json(self) -> Dict[str, Any]:
        return {
            "rung": self.name,
            "dtype": self.dtype,
            "error": self.error,
            "tolerance": self.tolerance,
            "passed": self.passed,
        }

    @staticmethod
    def from_json(raw: Mapping[str, Any]) -> Rung:
        """A rung without an error has not passed."""
        error = raw.get("error")
        return Rung(
            name=raw.get("rung") or "?",
            dtype=raw.get("dtype") or "",
            error=float("inf") if error is None else float(error),
            tolerance=raw.get("tolerance"),
            passed=bool(raw.get("passed")),
        )
