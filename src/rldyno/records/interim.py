"""What an interim check of a study with adaptive seeds found, as manifest.json keeps it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from rldyno.records.files import Json


@dataclass(frozen=True)
class PairResult:
    """Two contestants on the seeds that both have run."""

    first: str
    second: str
    seeds: int
    ratio: float
    """How many times worse the typical value of the second is; NaN where too few runs got there to say."""
    low: float
    high: float
    """Bound the ratio at 95 %, at any number of seeds."""
    chance: float
    """Corrected for all pairs of the group, and for checking as often as one likes."""
    state: str
    """different; equal within the margin; open; unreached: neither got there on any seed."""
    more_seeds: int | None
    """Seeds that decide an open pair with 80 % chance, as far as the runs tell; None beyond 300."""
    hope: float | None = None
    """Chance that an open pair is decided by the most seeds that the study allows."""

    def seen_from(self, better: str) -> PairResult:
        """The same with `better` as the first."""
        if better == self.first:
            return self
        ratio, low, high = (1 / value if value else math.inf for value in (self.ratio, self.high, self.low))
        return replace(self, first=self.second, second=self.first, ratio=ratio, low=low, high=high)

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> PairResult:
        return PairResult(
            first=values["first"],
            second=values["second"],
            seeds=values["seeds"],
            ratio=math.nan if values["ratio"] is None else values["ratio"],
            low=values["low"] or 0.0,
            high=math.inf if values["high"] is None else values["high"],
            chance=values["chance"],
            state=values["state"],
            more_seeds=values["more_seeds"],
            hope=values.get("hope"),
        )

    def to_json(self) -> Json:
        """Numbers that JSON has none for become null: a bound that is not known yet."""
        return {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in asdict(self).items()
        }


@dataclass(frozen=True)
class GroupFinding:
    """One group of comparable trials at one interim check."""

    label: str
    order: tuple[str, ...]
    """Contestants from the best to the worst so far."""
    pairs: tuple[PairResult, ...]
    """Those that decide, the better one first."""
    left_out: Mapping[str, str]
    """Contestants that are not compared, and why."""

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> GroupFinding:
        return GroupFinding(
            label=values["label"],
            order=tuple(values["order"]),
            pairs=tuple(map(PairResult.from_json, values["duels"])),
            left_out=values.get("left_out") or {},
        )

    def to_json(self) -> Json:
        return {
            "label": self.label,
            "order": list(self.order),
            "left_out": dict(self.left_out),
            "duels": [pair.to_json() for pair in self.pairs],
        }
