"""Which files of a results directory travel, and what they may be called.

Reports, exports, logs of a cluster and whatever else lies there stay at home.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from rldyno.errors import Problem
from rldyno.records.attempts import ATTEMPTS
from rldyno.records.calibrations import CALIBRATIONS_FILE
from rldyno.records.directory import (
    CERTIFICATES,
    CURVES,
    MANIFEST_FILE,
    STUDY_FILE,
    TRIALS,
    ResultsDirectory,
)
from rldyno.records.manifest import Manifest
from rldyno.records.seal import ANSWERED_FROM
from rldyno_rig.schema import LOG_FILE, OUTCOME_FILE, TRIAL_FILE
from rldyno_rig.team.names import SUBDIRECTORY

_TOP = (MANIFEST_FILE, STUDY_FILE, CALIBRATIONS_FILE)
_OF_ATTEMPT = (OUTCOME_FILE, *ANSWERED_FROM, LOG_FILE)
"""The outcome first: where it is there, the other files do not change any more."""
_OF_WORKER = (*ANSWERED_FROM, LOG_FILE)

_WORD = r"[A-Za-z0-9_][A-Za-z0-9_.=@-]{0,199}"


def _one_of(names: tuple[str, ...]) -> str:
    return f"(?:{'|'.join(map(re.escape, names))})"


_NAME = re.compile(
    rf"{_one_of(_TOP)}"
    rf"|{CERTIFICATES}/{_WORD}\.json"
    rf"|{CURVES}/{_WORD}\.csv"
    rf"|{TRIALS}/{_WORD}/{re.escape(TRIAL_FILE)}"
    rf"|{TRIALS}/{_WORD}/(?:{ATTEMPTS}/[0-9]{{1,6}}/)?{_one_of(_OF_ATTEMPT)}"
    rf"|{TRIALS}/{_WORD}/(?:{ATTEMPTS}/[0-9]{{1,6}}/)?{SUBDIRECTORY}/[0-9]{{1,6}}/{_one_of(_OF_WORKER)}"
)


def may_travel(name: str) -> bool:
    """Whether this is the name of a record. No other name is written to the disk: nothing leads elsewhere."""
    return _NAME.fullmatch(name) is not None and ".." not in name


def names_people(name: str) -> bool:
    """Whether it is text of others, which cannot be made anonymous: a log, or curves of somebody."""
    return name.endswith(LOG_FILE) or name.startswith(f"{CURVES}/")


def travelling(directory: ResultsDirectory, manifest: Manifest) -> list[Path]:
    """The files of a results directory that are packed, below it, in the order in which they are to be read.

    A Problem where a folder on the way is a link: it could lead elsewhere.
    """
    root = directory.root
    found = [root / name for name in _TOP]
    found += sorted(directory.certificates.glob("*.json"))
    found += sorted(directory.curves.glob("[!.]*.csv"))
    for trial in manifest.trials:
        home = directory.trial(trial)
        found += [home / TRIAL_FILE, *_of_attempt(home)]
        for attempt in _numbered(home / ATTEMPTS):
            found += _of_attempt(attempt)
    return [path for path in found if path.is_symlink() or path.exists()]


def _of_attempt(home: Path) -> Iterator[Path]:
    yield from (home / name for name in _OF_ATTEMPT)
    for folder in _numbered(home / SUBDIRECTORY):
        yield from (folder / name for name in _OF_WORKER)


def _numbered(folder: Path) -> list[Path]:
    """The folders in it whose names are numbers, in their order."""
    if not folder.exists() and not folder.is_symlink():
        return []
    found = [folder]
    if folder.is_dir() and not folder.is_symlink():
        found += [entry for entry in folder.iterdir() if re.fullmatch(r"[0-9]{1,6}", entry.name)]
    for path in found:
        if path.is_symlink():
            raise Problem(f"{path} is a link: a results directory holds plain files only", code=1)
    return sorted((path for path in found[1:] if path.is_dir()), key=lambda path: int(path.name))
