"""One step of the ladder: how far a quantity is from the reference."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import Any, Dict, Mapping, Optional

CONTRACT, STARTED = "contract", "update starts its work"
MANY, OWN_STEP, ENSEMBLE = "updates in one call", "step of own moments", "ensemble"
EQUAL = "equal on all workers"
OTHER_NUMBERS = (CONTRACT, STARTED)
"""Rungs whose number is not a relative error: broken promises, and the share of late work."""
FLOAT32_ERRORS = (1e-9, 1e-5)
"""In float64: far above its rounding, and what float32 leaves after a few operations (its ε is 1.2e-7)."""


HUGE, WORST = 1e300, sys.float_info.max
"""Neither infinity nor NaN is JSON: the largest double stands for them. No real error is huge."""


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
    detail: str = ""
    """Of a rung that failed: which array differs most and where, or what the contract promises otherwise."""

    @property
    def is_error(self) -> bool:
        """Its number is a relative error, not a count or a share."""
        return self.name.rpartition(": ")[2] not in OTHER_NUMBERS

    @property
    def suspicion(self) -> str:
        """What such an error usually comes from; empty where nothing does."""
        if self.dtype == "float64" and self.is_error and FLOAT32_ERRORS[0] <= self.error <= FLOAT32_ERRORS[1]:
            return "looks like float32 arithmetic"
        return ""

    @property
    def passed(self) -> bool:
        """By its numbers alone. NaN is no rounding: it fails even where an error has no limit."""
        return bool(0 <= self.error <= (HUGE if self.tolerance is None else self.tolerance))

    def failure(self) -> str:
        """What is wrong, and where."""
        if not self.is_error:
            return "{} in {}: {}".format(self.name, self.dtype, self.detail)
        size = "" if self.error > HUGE else " by {:.1e}".format(self.error)
        said = "{} is off{} in {}".format(self.name, size, self.dtype)
        parts = [part for part in (self.detail, self.suspicion) if part]
        return said + (": " + "; ".join(parts) if parts else "")

    def to_json(self) -> Dict[str, Any]:
        written = {
            "rung": self.name,
            "dtype": self.dtype,
            "error": self.error,
            "tolerance": self.tolerance,
            "passed": self.passed,
        }
        return {**written, "detail": self.detail} if self.detail else written

    @staticmethod
    def from_json(raw: Mapping[str, Any]) -> Rung:
        """A rung whose error is no number has not passed. Its own `passed`, for readers, is not read."""
        error = raw.get("error")
        return Rung(
            name=raw.get("rung") or "?",
            dtype=raw.get("dtype") or "",
            error=error if isinstance(error, (int, float)) and not isinstance(error, bool) else WORST,
            tolerance=raw.get("tolerance"),
            detail=raw.get("detail") or "",
        )
