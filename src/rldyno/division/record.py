"""open.json: what `rldyno open` measured."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rldyno.errors import Problem
from rldyno.records.seal import read_record, write_record
from rldyno.records.typed import typed
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
        row = OpenRow(**{**values, "found": read})
        rates = (1.0,) if read is None else read.steps_per_s
        others = (row.closed_steps_per_s, row.limit_steps_per_s)
        if row.environments < 1 or min(rates) <= 0 or any(one is not None and one < 0 for one in others):
            raise ValueError("a count or a rate is below what it can be")
        return row

    def to_json(self) -> Json:
        return {**vars(self), "found": None if self.found is None else self.found.to_json()}


@dataclass(frozen=True)
class OpenRecord:
    made_at: str
    host_sha256: str | None
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


def write_open(path: Path, record: OpenRecord) -> None:
    write_record(path, record.to_json())


def read_open(directory: Path) -> OpenRecord | None:
    """None where no open loop was measured."""
    path = directory / OPEN_RECORD
    return read_file(path) if os.path.lexists(path) else None


def read_file(path: Path) -> OpenRecord:
    """A Problem when it is damaged. Records of earlier versions have no seal."""
    try:
        return typed(path, read_record(path), OpenRecord.from_json)
    except Problem as problem:
        fix = f"delete it, or measure again: rldyno open -o {path.parent}"
        raise Problem(problem.message, fix=fix, code=1) from problem


def open_files(directory: Path) -> list[Path]:
    """Of the directory, and of directories in it whose names begin with `open`, which are no links."""
    own = [folder / OPEN_RECORD for folder in sorted(directory.glob("open*")) if not folder.is_symlink()]
    return [path for path in (directory / OPEN_RECORD, *own) if os.path.lexists(path)]
