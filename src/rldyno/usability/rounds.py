"""Times that were measured in rounds, and whether the machine was quiet enough for them.

Claims read these, so nothing here may start anything.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

BASES = {"logged": "plain", "watched": "logged"}
"""Kind of update → the kind that it is compared with: watching comes on top of writing."""
# Load average before times were measured; measuring itself adds up to 1.
BUSY = 1.5

Round = Mapping[str, float]
"""Kind of update → seconds of one."""


def ratios_of(rounds: Sequence[Round], kind: str) -> list[float]:
    """Time of one update over that of its base, round by round; empty if there were none of that kind."""
    return [one[kind] / one[BASES[kind]] for one in rounds if kind in one]


def ratio(rounds: Sequence[Round], kind: str) -> float | None:
    """The median."""
    ratios = ratios_of(rounds, kind)
    return statistics.median(ratios) if ratios else None


def busy_words(load: float) -> str:
    return f"the machine was busy (load {load:.1f})"
