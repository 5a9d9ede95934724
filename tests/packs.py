"""Packs made by hand, as somebody hostile would make them."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from rldyno.records.files import printable
from rldyno.records.seal import seal_of
from rldyno.sharing.index import INDEX_FILE
from rldyno_rig.schema import SEALED_SCHEMA

Entry = tuple[tarfile.TarInfo, bytes]


def contents(pack: Path) -> list[Entry]:
    """All that a pack holds, the index first."""
    with tarfile.open(pack) as archive:
        return [(entry, _read(archive, entry)) for entry in archive]


def _read(archive: tarfile.TarFile, entry: tarfile.TarInfo) -> bytes:
    stream = archive.extractfile(entry)
    return stream.read() if stream else b""


def write(path: Path, entries: Iterable[Entry], tail: bytes = bytes(1024)) -> Path:
    """Any entries at all, in the form that packs have."""
    raw = io.BytesIO()
    for entry, content in entries:
        raw.write(entry.tobuf(tarfile.USTAR_FORMAT, "utf-8", "surrogateescape"))
        raw.write(content + bytes(-len(content) % 512))
    path.write_bytes(gzip.compress(raw.getvalue() + tail, mtime=0))
    return path


def entry_of(name: str, content: bytes, kind: bytes = tarfile.REGTYPE, link: str = "") -> Entry:
    entry = tarfile.TarInfo(name)
    entry.size, entry.type, entry.linkname = len(content), kind, link
    return entry, content


def index_of(values: dict[str, Any]) -> Entry:
    """Sealed, whatever it says."""
    kept = {name: value for name, value in values.items() if name != "sha256"} | {"schema": SEALED_SCHEMA}
    return entry_of(INDEX_FILE, json.dumps({**kept, "sha256": seal_of(printable(kept))}).encode())


def member_of(name: str, content: bytes) -> dict[str, Any]:
    return {"name": name, "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def altered(
    pack: Path,
    target: Path,
    index: Callable[[dict[str, Any]], None] = lambda values: None,
    entries: Callable[[list[Entry]], None] = lambda found: None,
) -> Path:
    """A copy of a pack with its index or its entries changed; the index is sealed again."""
    (_, text), *found = contents(pack)
    values = json.loads(text)
    index(values)
    entries(found)
    return write(target, [index_of(values), *found])


def with_names(pack: Path, target: Path, names: Sequence[str]) -> Path:
    """A pack that also holds files with these names, all named by the index."""
    content = b"content"

    def name_them(values: dict[str, Any]) -> None:
        values["members"] += [member_of(name, content) for name in names]

    def add_them(found: list[Entry]) -> None:
        found += [entry_of(name, content) for name in names]

    return altered(pack, target, name_them, add_them)
