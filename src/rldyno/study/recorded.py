"""The study of a results directory. The manifest has it; `study.toml` beside it is a copy for readers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rldyno.errors import Problem
from rldyno.records.directory import STUDY_FILE, ResultsDirectory
from rldyno.records.files import read_bytes
from rldyno.records.manifest import Manifest
from rldyno.toml.source import Source, parse
from rldyno_rig.contestant import WHEEL, Contestant

if TYPE_CHECKING:
    from rldyno.study.file import Study


@dataclass(frozen=True)
class RecordedStudy:
    text: str
    """Empty where an older record has lost it."""
    note: str = ""
    """What a reader must know of the copy: it was edited, or cannot be checked."""
    certain: bool = True
    """Whether `text` is the study that ran."""


def recorded_study(directory: ResultsDirectory, manifest: Manifest) -> RecordedStudy:
    copy = _read(directory)
    if manifest.study_text:
        edited = copy is not None and copy != manifest.study_text
        note = f"{directory.study} was edited; it is only a copy, and the edit is not used" if edited else ""
        return RecordedStudy(manifest.study_text, note)
    if copy is None:
        return RecordedStudy("", f"{STUDY_FILE} is missing, and this older record has no other copy", False)
    return _checked(directory, copy, manifest.study_sha256)


def check_recorded(path: Path, text: str) -> Study:
    """The study in a record, checked. `path` names it in messages."""
    from rldyno.study.file import check_study

    source = parse(path, text)
    refuse_wheels(source)
    return check_study(source)


def refuse_wheels(source: Source) -> None:
    """A Problem where a record names the file of a wheel: it may be anybody's, and installing it runs it.

    Records of this version name wheels by version and hash.
    """
    given = source.table.get("contestants")
    for name in given if isinstance(given, list) else [given]:
        if isinstance(name, str) and Contestant.parse(name).release.endswith(WHEEL):
            raise Problem(
                f"{source.path}: `{name[:200]}` names a file, which is not read because a record says so",
                fix="run your own study file with this directory: rldyno run STUDY.toml --out DIR",
                code=1,
            )


def _checked(directory: ResultsDirectory, copy: str, sha256: str) -> RecordedStudy:
    """Of a manifest from before it kept the study: its hash shows whether the copy is still the original."""
    try:
        found = check_recorded(directory.study, copy).sha256
    except Problem as problem:
        return RecordedStudy(copy, f"{directory.study} cannot be checked: {problem.message}", False)
    if sha256 and found != sha256:
        note = f"{directory.study} is not the study that ran: its hash is not the one in the manifest"
        return RecordedStudy(copy, note, False)
    return RecordedStudy(copy)


def _read(directory: ResultsDirectory) -> str | None:
    try:
        return read_bytes(directory.study).decode(errors="replace")
    except OSError:
        return None
