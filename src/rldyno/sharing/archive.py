"""A pack as a file: a tar archive, compressed by gzip, of which there is one correct form.

The index comes first and says what follows. Each header must be, byte by byte, the one that we would write
for that name and size: links, devices, extensions of the format and names that lead elsewhere need no
handling of their own, because there is no way to write them.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import os
import stat
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from rldyno.errors import Problem
from rldyno.records.files import naming
from rldyno.records.seal import read_record, write_record
from rldyno.records.typed import typed
from rldyno.sharing.index import INDEX_FILE, MOST_INDEX_BYTES, PackIndex, objection_to

_BLOCK = tarfile.BLOCKSIZE
_END = bytes(2 * _BLOCK)
_CHUNK = 2**20
_LEVEL = 6
_SIZE_FIELD, _TYPE_FIELD = slice(124, 135), slice(156, 157)
_STRANGE_TYPES = {
    **dict.fromkeys((tarfile.LNKTYPE, tarfile.SYMTYPE), "a link"),
    **dict.fromkeys((tarfile.CHRTYPE, tarfile.BLKTYPE), "a device"),
    tarfile.FIFOTYPE: "a pipe",
    tarfile.DIRTYPE: "a folder",
}


def write_archive(folder: Path, index: PackIndex, path: Path) -> None:
    """The index and the files of a folder that it names. The same content gives the same bytes."""
    write_record(folder / INDEX_FILE, index.to_json())
    with path.open("wb") as raw, gzip.GzipFile("", "wb", _LEVEL, raw, mtime=0) as stream:
        for name in (INDEX_FILE, *(member.name for member in index.members)):
            content = (folder / name).read_bytes()
            stream.write(_header(name, len(content)) + content + _padding(len(content)))
        stream.write(_END)


def _header(name: str, size: int) -> bytes:
    """A Problem for a name that the format cannot hold."""
    entry = tarfile.TarInfo(name)
    entry.size = size
    try:
        return entry.tobuf(tarfile.USTAR_FORMAT, "ascii", "strict")
    except ValueError as error:
        raise Problem(f"{name[:100]} cannot be packed: {error}", code=1) from error


def _padding(size: int) -> bytes:
    return bytes(-size % _BLOCK)


def refused(pack: Path, why: str) -> Problem:
    return Problem(
        f"{pack} was not unpacked: {why}",
        fix="ask whoever sent it for a new one, made with `rldyno pack`; nothing of it was kept",
        code=1,
    )


def read_index(pack: Path, folder: Path) -> PackIndex:
    """The index alone, checked. It is written into the folder, which must be our own."""
    with _opened(pack) as source:
        return source.index(folder)


def extract(pack: Path, folder: Path) -> PackIndex:
    """Write every file of a pack into an empty folder of our own; a Problem where anything is not as it
    should be, and then the folder is the caller's to remove.
    """
    with _opened(pack) as source:
        index = source.index(folder)
        for member in index.members:
            source.expect_header(member.name, member.bytes)
            target = folder / member.name
            with naming(target):
                target.parent.mkdir(parents=True, exist_ok=True)
                found = source.copy(member.bytes, target)
            if found != member.sha256:
                raise refused(pack, f"{member.name} is not the file that its index names: it was altered")
        if source.take(len(_END)) != _END or source.take_any():
            raise refused(pack, "it has more in it than its index names")
        return index


@contextlib.contextmanager
def _opened(pack: Path) -> Iterator[_Source]:
    """A Problem for what is no plain file: a pipe would keep us waiting."""
    fix = "give a file that `rldyno pack` wrote"
    if pack.is_dir():
        raise Problem(f"{pack} is a directory, not a pack", fix=f"pack it: rldyno pack {pack}")
    try:
        descriptor = os.open(pack, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise Problem(f"cannot read {pack}: {error.strerror}", fix=fix) from error
    with open(descriptor, "rb") as raw:  # noqa: PTH123 (a descriptor)
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise Problem(f"{pack} is no plain file", fix=fix)
        yield _Source(pack, raw, status.st_size)


class _Source:
    """What a pack holds, taken piece by piece: never more than was asked for."""

    def __init__(self, pack: Path, raw: IO[bytes], size: int) -> None:
        self._pack, self._size = pack, size
        self._stream = gzip.GzipFile(fileobj=raw, mode="rb")

    def take(self, count: int) -> bytes:
        found = self._read(count)
        if len(found) < count:
            raise refused(self._pack, "it ends too early")
        return found

    def take_any(self) -> bytes:
        return self._read(1)

    def _read(self, count: int) -> bytes:
        try:
            return self._stream.read(count)
        except (OSError, EOFError, zlib.error) as error:
            raise refused(self._pack, f"it is damaged, or no pack ({error})") from error

    def index(self, folder: Path) -> PackIndex:
        head = self.take(_BLOCK)
        digits = head[_SIZE_FIELD]
        if not digits.isdigit() or head != _header(INDEX_FILE, int(digits, 8) if _octal(digits) else 0):
            raise refused(self._pack, f"it does not begin with {INDEX_FILE}: it is no pack")
        if (size := int(digits, 8)) > MOST_INDEX_BYTES:
            raise refused(self._pack, "its index is too large")
        target = folder / INDEX_FILE
        with naming(target):
            self.copy(size, target)
        try:
            index = typed(target, read_record(target), PackIndex.from_json)
        except Problem as problem:
            why = problem.message.replace(str(target), INDEX_FILE)
            raise refused(self._pack, f"its index cannot be used: {why}") from problem
        if why_not := objection_to(index, self._size):
            raise refused(self._pack, why_not)
        return index

    def expect_header(self, name: str, size: int) -> None:
        head = self.take(_BLOCK)
        if head != _header(name, size):
            kind = _STRANGE_TYPES.get(head[_TYPE_FIELD])
            why = f"{name} is {kind}" if kind else f"it holds something else where its index names {name}"
            raise refused(self._pack, why)

    def copy(self, size: int, target: Path) -> str:
        """Write so many bytes to a new file; return their hash."""
        sha, left = hashlib.sha256(), size
        with target.open("xb") as stream:
            while left:
                piece = self.take(min(left, _CHUNK))
                left -= len(piece)
                sha.update(piece)
                stream.write(piece)
        padding = _padding(size)
        if self.take(len(padding)) != padding:
            raise refused(self._pack, f"something is hidden behind {target.name}")
        return sha.hexdigest()


def _octal(digits: bytes) -> bool:
    return not set(digits) - set(b"01234567")
