"""A table from code as the text of a TOML file. By hand: Python's standard library only reads TOML."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from rldyno.errors import Problem
from rldyno.toml.lines import key_name


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
