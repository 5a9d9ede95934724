"""A TOML file that a person wrote: reading it, and reporting all its mistakes with their lines."""

from __future__ import annotations

import errno
import functools
import re
import stat
import tomllib
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rldyno.errors import Problem
from rldyno.toml.lines import Location, key_name, locate
from rldyno.toml.suggestions import nearest

SHOWN = 30
"""Mistakes that a message lists."""
LONGEST = 1_000_000
"""Characters of a file: none that a person writes is longer."""
_MOST_BYTES = 4 * LONGEST + 4
"""More than LONGEST characters, whatever they are."""


@dataclass
class Source:
    """A TOML file being read, or such a table from code, and the mistakes found in it so far."""

    path: Path | str
    """The file; for a table from code, what it makes."""
    table: dict[str, Any]
    text: str | None = None
    """None for a table from code."""
    mistakes: dict[tuple[int, str], None] = field(default_factory=dict)
    """(line, message): a set that keeps its order."""

    @functools.cached_property
    def lines(self) -> dict[Location, int]:
        """Needed only where there is a mistake."""
        return locate(self.text or "")

    def mistake(self, location: Location, message: str) -> None:
        key = key_name(location)
        self.mistakes[self.line(location), f"{key}: {message}" if key else message] = None

    def line(self, location: Location) -> int:
        """Of the location, or of the closest thing around it that stands in the file."""
        while location and location not in self.lines:
            location = location[:-1]
        return self.lines.get(location, 1)

    def problem(self, fix: str) -> Problem:
        lines = [
            f"{self.path}: {message}" if self.text is None else f"{self.path}:{line}: {message}"
            for line, message in sorted(self.mistakes)
        ]
        if len(lines) == 1:
            return Problem(lines[0], fix=fix)
        shown = lines[:SHOWN] + ([f"… and {len(lines) - SHOWN:,} more"] if len(lines) > SHOWN else [])
        return Problem(f"{self.path} has {len(lines):,} mistakes", detail="\n".join(shown), fix=fix)


def read(path: Path) -> Source:
    """Parse a TOML file; a file that cannot be read or parsed is a Problem."""
    try:
        text = read_plain(path, _MOST_BYTES).decode("utf-8").replace("\r\n", "\n")
    except FileNotFoundError:
        raise Problem(f"{path}: no such file", fix=_nearby(path)) from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise Problem(f"{path}:{line}: not UTF-8 text", fix="save the file as UTF-8") from None
    except OSError as error:
        raise Problem(
            f"{path}: cannot be read: {error.strerror}", fix="give the path of a TOML file"
        ) from None
    return parse(path, text)


def read_plain(path: Path, most_bytes: int) -> bytes:
    """The first bytes of a file that a person named. Never waits for a pipe, and never fills the memory from
    a device: a path may lead to either. Raises OSError.
    """
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(errno.EINVAL, "it is no plain file")
    with path.open("rb") as stream:
        return stream.read(most_bytes)


def parse(path: Path | str, text: str) -> Source:
    """Parse the text of a TOML file; `path` names it in messages."""
    if len(text) > LONGEST:
        raise Problem(f"{path} has {len(text):,} characters", fix=f"give a file of at most {LONGEST:,}")
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise Problem(
            _syntax(path, text, str(error)), fix="correct the TOML syntax (https://toml.io)"
        ) from None
    except (RecursionError, ValueError) as error:
        why = "tables or arrays are nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise Problem(f"{path}: {why}", fix="correct the file") from None
    source = Source(path, table, text)
    for location in _unprintable(table, ()):
        source.mistake(location, "has a control character")
    if source.mistakes:
        raise source.problem("remove the control characters")
    return source


def _unprintable(value: Any, location: Location) -> Iterator[Location]:
    """Where texts could change a terminal: escape sequences and other control characters but line breaks."""
    if isinstance(value, str):
        if not value.replace("\n", "").replace("\t", "").isprintable() and any(map(_is_control, value)):
            yield location
    elif isinstance(value, dict):
        for key, item in value.items():
            if any(map(_is_control, key)):
                yield location
            yield from _unprintable(item, (*location, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _unprintable(item, (*location, index))


def _is_control(character: str) -> bool:
    return character not in "\n\t" and unicodedata.category(character) == "Cc"


def spelled(value: Any) -> str:
    """A value as TOML writes it, more or less."""
    return str(value).lower() if isinstance(value, bool) else repr(value)


def _syntax(path: Path | str, text: str, message: str) -> str:
    words, _, place = message.partition(" (at ")
    numbered = re.match(r"line (\d+)", place)
    line = int(numbered.group(1)) if numbered else text.count("\n") + 1
    return f"{path}:{line}: {words[:1].lower()}{words[1:]}"


def _nearby(path: Path) -> str:
    try:
        names = sorted(entry.name for entry in path.parent.iterdir() if entry.suffix == ".toml")
    except OSError:
        return "check the path"
    meant = nearest(path.name, names)
    return f"did you mean {path.parent / meant}?" if meant else "check the path"
