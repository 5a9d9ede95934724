"""open.json: what `rldyno open` measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rldyno.errors import Problem
from rldyno.records import files as records
from rldyno_rig.open.job_file import OpenFound

Json = dict[str, Any]
OPEN_RECORD = "open.json"
OPEN_RECORD_SCHEMA = 1
OPEN_LEARNING = "open-learning.json"


def in_words(framework: str, environments: int) -> str:
    return f"{framework}, {environments:,} environment{'' if environments == 1 else 's'}"


@dataclass(frozen=True)
class OpenRow:
    """One framework with one number of environments."""

    framework: str
    environments: int
    found: OpenFound | None
    """None where it could not be measured."""
    reason: str | None = None
    """Why not."""
    closed: str | None = None
    """Contestant of the closed division that ran the same task; None where none was asked for."""
    closed_steps_per_s: float | None = None
    limit_steps_per_s: float | None = None
    """Steps per second at which the network's products would keep one core, or the GPU, at its peak."""

    def __str__(self) -> str:
        return in_words(self.framework, self.environments)

    @property
    def share_of_limit(self) -> float | None:
        if self.found is None or not self.limit_steps_per_s:
            return None
        return self.found.best / self.limit_steps_per_s

    @property
    def times_closed(self) -> float | None:
        if self.found is None or not self.closed_steps_per_s:
            return None
        return self.found.best / self.closed_steps_per_s

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> OpenRow:
        found = values["found"]
        read = None if found is None else OpenFound.from_json(found)
        return OpenRow(**{**values, "found": read})

    def to_json(self) -> Json:
        return {**vars(self), "found": None if self.found is None else self.found.to_json()}


@dataclass(frozen=True)
class OpenRecord:
    made_at: str
    host_sha256: str
    algorithm: str
    environment: str
    device: str
    dtype: str
    agents: int
    hyper: Mapping[str, Any]
    """Of the first number of environments; the others differ in that alone."""
    rows: tuple[OpenRow, ...]
    division: str = "open"
    """So that nobody ranks it with trials."""
    schema: int = OPEN_RECORD_SCHEMA

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> OpenRecord:
        rows = tuple(map(OpenRow.from_json, values["rows"]))
        return OpenRecord(**{**values, "rows": rows})

    def to_json(self) -> Json:
        return {**vars(self), "hyper": dict(self.hyper), "rows": [row.to_json() for row in self.rows]}


def read_open(directory: Path) -> OpenRecord | None:
    """None where no open loop was measured."""
    path = directory / OPEN_RECORD
    if not path.exists():
        return None
    try:
        return OpenRecord.from_json(records.read_json(path))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        fix = f"delete it, or measure again: rldyno open -o {directory}"
        raise Problem(f"{path} is damaged: {type(error).__name__}: {error}", fix=fix, code=1) from error
