"""The line of each key and array item of a TOML file.

Written by hand: no TOML library that is installed everywhere gives the lines of array items.
"""

from __future__ import annotations

import bisect
import re
import tomllib
from collections.abc import Sequence

Location = tuple[str | int, ...]
"""Keys and array indices from the top of the file: `("budget", "stop", "return")`, `("contestants", 1)`."""

_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_SPACE = re.compile(r"[ \t]*")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_BARE_VALUE = re.compile(r"[^,\]}#\n]+")
_STRING = re.compile(
    r'"""(?:\\.|[^\\])*?""""{0,2}'  # a multi-line string may end in quotes of its own
    r"|'''.*?''''{0,2}"
    r'|"(?:\\.|[^"\\])*"'
    r"|'[^']*'",
    re.DOTALL,
)


def locate(text: str) -> dict[Location, int]:
    """Location → line, counted from 1. `text` must be valid TOML."""
    return _Scanner(text).scan()


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.newlines = [match.start() for match in re.finditer("\n", text)]
        self.lines: dict[Location, int] = {}
        self.table_counts: dict[Location, int] = {}

    def scan(self) -> dict[Location, int]:
        table: Location = ()
        while self.skip(_BLANK):
            if self.take("[["):
                table = self.header(array=True)
                self.at += 2
            elif self.take("["):
                table = self.header(array=False)
                self.at += 1
            else:
                self.key_value(table)
        return self.lines

    def skip(self, pattern: re.Pattern[str]) -> bool:
        """Move past `pattern`; whether any text is left."""
        match = pattern.match(self.text, self.at)
        if match:
            self.at = match.end()
        return self.at < len(self.text)

    def take(self, token: str) -> bool:
        found = self.text.startswith(token, self.at)
        self.at += len(token) if found else 0
        return found

    def mark(self, location: Location, at: int) -> None:
        self.lines.setdefault(location, bisect.bisect_left(self.newlines, at) + 1)

    def header(self, *, array: bool) -> Location:
        start = self.at
        *parents, name = self.key()
        table: Location = ()
        for key in parents:
            table = self.newest((*table, key))
            self.mark(table, start)
        table = (*table, name)
        self.mark(table, start)
        if array:
            self.table_counts[table] = self.table_counts.get(table, 0) + 1
        table = self.newest(table)
        self.mark(table, start)
        return table

    def newest(self, table: Location) -> Location:
        """An array of tables stands for its latest element."""
        count = self.table_counts.get(table)
        return (*table, count - 1) if count else table

    def key(self) -> list[str]:
        parts = []
        while True:
            self.skip(_SPACE)
            bare = _BARE_KEY.match(self.text, self.at)
            match = bare or _STRING.match(self.text, self.at)
            assert match, f"no key at {self.at}"
            self.at = match.end()
            parts.append(match.group() if bare else str(tomllib.loads(f"key = {match.group()}")["key"]))
            self.skip(_SPACE)
            if not self.take("."):
                return parts

    def key_value(self, table: Location) -> None:
        start = self.at
        location = table
        for part in self.key():
            location = (*location, part)
            self.mark(location, start)
        self.take("=")
        self.skip(_SPACE)
        self.value(location)

    def value(self, location: Location) -> None:
        if self.take("["):
            index = 0
            while self.skip(_BLANK) and not self.take("]"):
                if not self.take(","):
                    self.mark((*location, index), self.at)
                    self.value((*location, index))
                    index += 1
        elif self.take("{"):
            while self.skip(_BLANK) and not self.take("}"):
                if not self.take(","):
                    self.key_value(location)
        else:
            self.skip(_STRING if self.text[self.at] in "\"'" else _BARE_VALUE)


def key_name(location: Sequence[str | int]) -> str:
    """The key as it would be written in the file; the line stands for array indices."""
    keys = [key for key in location if isinstance(key, str)]
    return ".".join(key if _BARE_KEY.fullmatch(key) else f'"{key}"' for key in keys)
