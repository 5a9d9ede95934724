"""Sealed records: each holds the hash of its own content, an outcome those of the files of its trial.

A seal finds damage, mix-ups and edits, down to a single bit. It is no signature: somebody who changes a
record and seals it anew is not found. Records of schema 1 come from versions without seals.
Only the standard library is imported here: the trial process seals its outcome.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from rldyno.errors import Problem
from rldyno.records.files import Json, open_record, printable, read_json, write_json
from rldyno_rig import schema
from rldyno_rig.schema import SCHEMA_VERSION, SEALED_SCHEMA
from rldyno_rig.team.names import SUBDIRECTORY

SEAL = "sha256"
ANSWERED_FROM = (
    *(schema.FACTS_FILE, schema.EPISODES_FILE, schema.PROGRESS_FILE, schema.ACTIONS_FILE),
    *(schema.SAMPLES_FILE, schema.RESULT_FILE),
)

_OF_WORKER = re.compile(rf"{SUBDIRECTORY}/[0-9]+/[a-z]+\.(?:json|csv)")


def write_record(path: Path, values: Json) -> None:
    """Write a record with its seal, atomically."""
    content = {**values, "schema": SEALED_SCHEMA}
    write_json(path, {**content, SEAL: seal_of(printable(content))})  # as it will be read


def read_record(path: Path) -> Json:
    """A record whose seal holds, or one from before there were seals; else a Problem."""
    values = read_json(path)
    version = values.get("schema", SCHEMA_VERSION)
    if type(version) is not int or version not in (SCHEMA_VERSION, SEALED_SCHEMA):
        raise Problem(
            f"{path} has schema {version!r}; this rldyno reads {SCHEMA_VERSION} and {SEALED_SCHEMA}",
            fix="use the rldyno version that wrote it, or run the study again into a new directory",
        )
    given = values.pop(SEAL, None)
    if given != (seal_of(values) if given is not None or version == SEALED_SCHEMA else None):
        raise Problem(
            f"{path} was altered: its content does not match its hash",
            fix="run the study again: only this trial is repeated",
            code=1,
        )
    return values


def seal_of(values: Json) -> str:
    content = json.dumps(values, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(content.encode()).hexdigest()


def file_hashes(directory: Path) -> dict[str, str]:
    """Name → hash of every file of an attempt that answers use, those of all workers; a framework may have
    left others there.
    """
    ranks = sorted(directory.glob(f"{SUBDIRECTORY}/*"), key=lambda folder: folder.name)
    paths = [folder / name for folder in (directory, *ranks) for name in ANSWERED_FROM]
    return {str(path.relative_to(directory)): hash_of(path) for path in paths if path.is_file()}


def altered_files(directory: Path, hashes: Mapping[str, str]) -> list[str]:
    """What is wrong with the files of an attempt, one sentence each."""
    found = []
    for name, expected in hashes.items():
        whose = _OF_WORKER.fullmatch(name)
        path = directory / (name if whose else Path(name).name)  # a hostile name must not lead elsewhere
        try:
            status = path.lstat()
            if _known_hash(path, status.st_mtime_ns, status.st_size, status.st_ino) != expected:
                found.append(f"{name} was altered")
        except FileNotFoundError:
            found.append(f"{name} is missing")
        except (OSError, Problem) as error:
            found.append(f"{name} cannot be read: {error}")
    return found


@lru_cache(maxsize=65_536)
def _known_hash(path: Path, mtime_ns: int, size: int, inode: int) -> str:
    """A session checks its trials several times: a file that has not changed since is hashed once."""
    return hash_of(path)


def hash_of(path: Path) -> str:
    with open_record(path) as stream:
        return hashlib.sha256(stream.read()).hexdigest()
