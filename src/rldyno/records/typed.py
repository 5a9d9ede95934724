"""Records as types: every field holds what its annotation says, or the record is damaged.

Only the standard library is imported here: the trial process reads records.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from rldyno.errors import Problem
from rldyno.records.files import Json

Record = TypeVar("Record")
Check = Callable[[Any], bool]
_LARGEST = sys.float_info.max
_WRONG = (KeyError, TypeError, ValueError, AttributeError, IndexError)


def typed(path: Path, values: Json, make: Callable[[Json], Record]) -> Record:
    """The record that `make` builds from the content of a file; a Problem when a field has another type."""
    try:
        record = make(values)
        checks = checks_of(type(record))
        wrong = [name for name, check in checks.items() if not check(getattr(record, name))]
    except _WRONG as error:
        raise damaged(path, f"{type(error).__name__}: {error}") from error
    if wrong:
        raise damaged(path, f"`{wrong[0]}` has a value of the wrong kind")
    return record


def damaged(path: Path, why: str) -> Problem:
    fix = "run its study again: only this trial is repeated"
    return Problem(f"{path} is damaged: {why[:200]}", fix=fix, code=1)


def checks_of(kind: Any) -> dict[str, Check]:
    """Field of a dataclass → whether a value is of its type."""
    return _checks(kind)


@lru_cache(maxsize=64)
def _checks(kind: Any) -> dict[str, Check]:
    return {name: _check(hint) for name, hint in get_type_hints(kind).items()}


def _check(hint: Any) -> Check:
    """Whether a value is of the annotated type. Whole numbers fit into 64 bits; one that fits into a float
    counts as a float.
    """
    if hint is Any:
        return lambda value: True
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        parts = [_check(argument) for argument in arguments]
        return lambda value: any(part(value) for part in parts)
    if origin is tuple:
        item = _check(arguments[0])
        return lambda value: isinstance(value, tuple) and all(map(item, value))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        of_key, of_value = map(_check, arguments)
        return lambda value: (
            isinstance(value, Mapping)
            and all(of_key(name) and of_value(item) for name, item in value.items())
        )
    if hint is float:
        return lambda value: (
            isinstance(value, float)
            or (isinstance(value, int) and not isinstance(value, bool) and abs(value) <= _LARGEST)
        )
    if hint is int:
        return lambda value: isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63
    if is_dataclass(hint) and isinstance(hint, type):
        return lambda value: (
            isinstance(value, hint)
            and all(check(getattr(value, name)) for name, check in checks_of(hint).items())
        )
    if isinstance(hint, type):
        return lambda value: isinstance(value, hint)
    return lambda value: True
