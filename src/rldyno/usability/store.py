"""Usability records: one file per framework and toolchain in the user's cache, and the file of `-o`.

Reports read from here, so nothing here may start anything.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rldyno.config import cache_dir
from rldyno.errors import Problem
from rldyno.records import files as records

Json = dict[str, Any]
FILE = "usability.json"
SCHEMA = 1


def record_path(framework: str, key: str) -> Path:
    return cache_dir() / "usability" / f"{framework}-{key}.json"


def read(path: Path) -> Json | None:
    """None for what is absent, damaged or of another schema: it is measured again."""
    try:
        found = records.read_json(path)
    except Problem:
        return None
    return found if found.get("schema") == SCHEMA else None


def write(path: Path, content: Json) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    records.write_json(path, content)


def known(directory: Path, versions: dict[str, dict[str, str]]) -> dict[str, Json]:
    """Framework → record: of DIR/usability.json, else of the cache for exactly the versions that ran.

    `versions` has, for each framework of the study, the versions that its trials ran with.
    """
    beside = (read(directory / FILE) or {}).get("frameworks", {})
    found = {name: beside[name] for name in versions if name in beside}
    for name, ran in versions.items():
        if name not in found and (cached := _cached(name, ran)) is not None:
            found[name] = cached
    return found


def _cached(framework: str, ran: dict[str, str]) -> Json | None:
    paths = (cache_dir() / "usability").glob(f"{framework}-*.json")
    fitting = [record for path in paths if (record := read(path)) and _fits(record, ran)]
    return max(fitting, key=lambda record: str(record["measured_at"]), default=None)


def _fits(record: Json, ran: dict[str, str]) -> bool:
    """Whether Python and every package that both name have the same version; one package at least."""
    measured = record["versions"]
    shared = [name for name in ran if name in measured]
    same = all(measured[name] == ran[name] for name in shared)
    return bool(shared) and same and ran.get("python", record["python"]) == record["python"]
