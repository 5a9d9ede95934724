"""JSON files of a results directory: written atomically, read with care.

Only the standard library is imported here: `rldyno trial` starts once per trial and pays for every import.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import stat
import unicodedata
import zlib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from rldyno.errors import Problem

Json = dict[str, Any]
_TEMPORARY = ".tmp"
MOST_BYTES = 2**30
"""A record is smaller than this; anything larger is not one of ours."""


def now_iso() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def write_json(path: Path, value: Json) -> None:
    """Write so that readers, also after a power cut, see the old file or the new one, never a part."""
    write_atomically(path, json.dumps(value, indent=1, allow_nan=False) + "\n")


def write_atomically(path: Path, content: str | bytes) -> None:
    with replacing(path) as temporary, temporary.open("wb") as stream:
        stream.write(content.encode() if isinstance(content, str) else content)
        stream.flush()
        os.fsync(stream.fileno())
    _sync_directory(path.parent)


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A path to write to, which takes the place of `path` at the end: also of a link, whose target stays."""
    temporary = path.with_name(f".{path.name}.{owner()}{_TEMPORARY}")
    try:
        with naming(path):
            _remove_abandoned_of(path)
            temporary.unlink(missing_ok=True)
            yield temporary
            temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """An OSError from here names this path: not a temporary one, and not none, as a full disk does."""
    try:
        yield
    except OSError as error:
        error.filename = str(path)
        raise


def is_temporary(path: Path) -> bool:
    """Whether it is a file of `write_atomically` that a killed process left behind."""
    return path.name.startswith(".") and path.name.endswith(_TEMPORARY)


def remove_abandoned(folder: Path) -> None:
    """Files of `write_atomically` in the folder whose process was killed. Other processes may work there."""
    for path in folder.glob(f".*{_TEMPORARY}"):
        if has_died(path.name.removesuffix(_TEMPORARY)):
            with contextlib.suppress(OSError):
                path.unlink()


def _remove_abandoned_of(path: Path) -> None:
    """What processes that were killed had written of this file."""
    begin = f".{path.name}."
    for entry in os.scandir(path.parent):
        name = entry.name
        if name.startswith(begin) and name.endswith(_TEMPORARY) and has_died(name.removesuffix(_TEMPORARY)):
            with contextlib.suppress(OSError):
                Path(entry).unlink()


def owner() -> str:
    """This process, for names of what it may leave behind when it is killed: `2f9a01c4-4711`."""
    return f"{_host()}-{os.getpid()}"


def has_died(name: str) -> bool:
    """Whether the `owner` at the end of a name was a process of this machine that has ended.

    Caches may be on a disk that machines share: what another one does is not known.
    """
    host, _, pid = name.rpartition(".")[2].partition("-")
    if host != _host() or not pid.isdigit():
        return False
    try:
        os.kill(int(pid), 0)
    except (ProcessLookupError, OverflowError):
        return True
    except PermissionError:
        return False
    return False


def _host() -> str:
    return f"{zlib.crc32(os.uname().nodename.encode()):08x}"


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def refuse_link(path: Path) -> None:
    """A Problem for a link in a results directory, which may come from somebody else and lead anywhere."""
    if path.is_symlink():
        raise Problem(
            f"{path} is a link: a results directory holds plain files only", fix="remove the link", code=1
        )


def open_record(path: Path, most_bytes: float = MOST_BYTES) -> IO[bytes]:
    """Open a file of a results directory, which may come from somebody else: no link, no pipe, no device.

    `most_bytes` is for those who read all of it. Raises OSError, FileNotFoundError among them.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    status = os.fstat(descriptor)
    if stat.S_ISREG(status.st_mode) and status.st_size <= most_bytes:
        return open(descriptor, "rb", buffering=0)  # noqa: PTH123 (half the time of Path.open)
    os.close(descriptor)
    raise OSError("it is no plain file, or too large")


def read_bytes(path: Path) -> bytes:
    """As `open_record`."""
    with open_record(path) as stream:
        return stream.read()


def _refuse(constant: str) -> None:
    """JSON has no NaN and no infinity; Python's reader would take them."""
    raise ValueError(f"{constant} is no JSON")


_MAY_OVERFLOW = re.compile(rb"[0-9.][eE]\+?[0-9]{3}|[0-9]{309}")
"""What the text of a number has that is larger than any float; most records have none."""


def _finite(text: str) -> float:
    """Python's reader takes 1e400 for infinity."""
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"{text[:20]} is larger than any number of a record")
    return value


def read_json(path: Path) -> Json:
    """The object in the file, without control characters; a Problem if it is missing or damaged."""
    try:
        data = read_bytes(path)
        parse = _finite if _MAY_OVERFLOW.search(data) else None
        value = json.loads(data, parse_constant=_refuse, parse_float=parse)
    except FileNotFoundError:
        raise Problem(f"{path} does not exist", code=1) from None
    except (ValueError, OSError, RecursionError) as error:
        raise Problem(
            f"{path} is damaged: {error}", fix="delete the file and run its study again", code=1
        ) from error
    if not isinstance(value, dict):
        raise Problem(
            f"{path} is damaged: it holds no JSON object",
            fix="delete the file and run its study again",
            code=1,
        )
    return printable(value) if _may_hold_controls(data) else value


def printable(value: Any) -> Any:
    """A JSON value whose texts have no control characters but line breaks, which may not reach a terminal,
    and no half of a pair of UTF-16, which no file can hold.
    """
    if isinstance(value, str):
        if value.isprintable():
            return value
        return "".join(
            "\N{REPLACEMENT CHARACTER}" if unicodedata.category(c) in _UNWANTED and c not in "\n\t" else c
            for c in value
        )
    if isinstance(value, dict):
        return {printable(name): printable(item) for name, item in value.items()}
    return [printable(item) for item in value] if isinstance(value, list) else value


_UNWANTED = ("Cc", "Cs")


def _may_hold_controls(data: bytes) -> bool:
    """In JSON they are escaped, or in UTF-8 begin with these bytes; most records have none."""
    return b"\\u00" in data or b"\\ud" in data.lower() or b"\x7f" in data or b"\xc2" in data
