"""Usability records: one file per framework and toolchain in the user's cache, and the file of `-o`.

Reports read from here, so nothing here may start anything.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from rldyno.config import cache_dir
from rldyno.errors import Problem
from rldyno.records import files as records
from rldyno.records.seal import read_record, write_record
from rldyno.records.typed import typed
from rldyno.usability.record import SCHEMA, UsabilityFile, UsabilityRecord
from rldyno_rig.contestant import Contestant

if TYPE_CHECKING:
    from rldyno.results.load import Results

FILE = "usability.json"


def record_path(framework: str, key: str) -> Path:
    return cache_dir() / "usability" / f"{framework}-{key}.json"


def read(path: Path) -> UsabilityRecord | None:
    """Of the cache. None for what is absent, damaged or of another schema: it is measured again."""
    try:
        found = records.read_json(path)
        return typed(path, found, UsabilityRecord.from_json) if found.get("schema") == SCHEMA else None
    except Problem:
        return None


def write(path: Path, record: UsabilityRecord) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    records.write_json(path, record.to_json())


def read_beside(directory: Path) -> UsabilityFile | None:
    """What `rldyno usability -o` left in a results directory; None where there is nothing.

    A Problem where it is damaged: the directory may come from somebody else.
    """
    path = directory / FILE
    if not path.exists() and not path.is_symlink():
        return None
    try:
        return typed(path, read_record(path), UsabilityFile.from_json)
    except Problem as problem:
        raise Problem(problem.message, fix=_fix(path), code=1) from problem


def write_beside(path: Path, file: UsabilityFile) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_record(path, file.to_json())


@contextlib.contextmanager
def shown(directory: Path) -> Iterator[None]:
    """A Problem where something of the records cannot be shown: each part has a form of its own, which only
    the code that shows it knows.
    """
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        path = directory / FILE
        why = f"{type(error).__name__}: {error}"[:200]
        raise Problem(f"{path} is damaged: {why}", fix=_fix(path), code=1) from error


def _fix(path: Path) -> str:
    return f"delete it, or measure again: rldyno usability -o {path}"


def of_results(results: Results) -> dict[str, UsabilityRecord]:
    """Framework of the study → record, as far as one is known."""
    return known(results.directory, ran_with(results))


def ran_with(results: Results) -> dict[str, dict[str, str]]:
    """Framework → the versions that its trials ran with."""
    versions: dict[str, dict[str, str]] = {}
    for contestant, sets in results.versions.items():
        versions.setdefault(Contestant.parse(contestant).framework, {}).update(sets[0])
    return versions


def known(directory: Path, versions: dict[str, dict[str, str]]) -> dict[str, UsabilityRecord]:
    """Framework → record: of DIR/usability.json, else of the cache for exactly the versions that ran.

    `versions` has, for each framework of the study, the versions that its trials ran with.
    """
    file = read_beside(directory)
    beside = file.frameworks if file else {}
    found = {name: beside[name] for name in versions if name in beside}
    for name, ran in versions.items():
        if name not in found and (cached := _cached(name, ran)) is not None:
            found[name] = cached
    return found


def _cached(framework: str, ran: dict[str, str]) -> UsabilityRecord | None:
    paths = (cache_dir() / "usability").glob(f"{framework}-*.json")
    fitting = [record for path in paths if (record := read(path)) and _fits(record, ran)]
    return max(fitting, key=lambda record: record.measured_at, default=None)


def _fits(record: UsabilityRecord, ran: dict[str, str]) -> bool:
    """Whether Python and every package that both name have the same version; one package at least."""
    measured = record.versions
    shared = [name for name in ran if name in measured]
    same = all(measured[name] == ran[name] for name in shared)
    return bool(shared) and same and ran.get("python", record.python) == record.python
