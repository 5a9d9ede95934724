"""A table from code as the text of a TOML file. By hand: Python's standard library only reads TOML."""

from __future__ import annotations

import contextlib
import json
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

from rldyno.errors import Problem
from rldyno.toml.lines import key_name, locate


def plain(value: Any) -> Any:
    """As TOML would give it: tables are dicts, arrays are lists, NumPy's numbers are Python's."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | range):
        return [plain(item) for item in value]
    return value.item() if hasattr(value, "item") else value


def toml_text(table: Mapping[str, Any]) -> str:
    return "\n".join(_lines(table, ())).strip() + "\n"


def _lines(table: Mapping[str, Any], place: tuple[str, ...]) -> Iterator[str]:
    values = {key: value for key, value in table.items() if not isinstance(value, Mapping)}
    if place and (values or not table):
        yield f"\n[{key_name(place)}]"
    for key, value in values.items():
        yield f"{key_name((key,))} = {_value(value, (*place, key))}"
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _lines(value, (*place, key))


def with_value(text: str, key: str, value: Any) -> str:
    """The text of a TOML file with another value for a key of its top level; other lines stay as they are.

    A value that is not written as `key = …`, but as a table of its own, costs the file its comments.
    """
    wanted = {**tomllib.loads(text), key: value}
    lines = text.split("\n")
    first = locate(text).get((key,), 1) - 1
    for last in range(first + 1, len(lines) + 1):
        changed = "\n".join([*lines[:first], f"{key_name((key,))} = {inline(value)}", *lines[last:]])
        with contextlib.suppress(tomllib.TOMLDecodeError):
            if tomllib.loads(changed) == wanted:
                return changed
    return toml_text(wanted)


def inline(value: Any) -> str:
    """A value as it stands behind `key =`."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key_name((key,))} = {inline(item)}" for key, item in value.items()) + " }"
    return _value(value, ())


def _value(value: Any, place: tuple[str, ...]) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, list):
        return "[" + ", ".join(_value(item, place) for item in value) + "]"
    raise Problem(
        f"rldyno.Study: {key_name(place)}: a study file cannot hold {value!r}",
        fix="give a text, a number, true or false, a list or a dictionary",
    )
