"""TOML files as pydantic models: what pydantic rejects becomes mistakes with lines and suggestions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from rldyno.toml.lines import Location
from rldyno.toml.source import Source, read, spelled
from rldyno.toml.suggestions import suggest

Model = TypeVar("Model", bound=BaseModel)

_EXPECTED = {
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "string_type": "a text",
    "bool_type": "true or false",
    "tuple_type": "an array",
    "path_type": "a path",
    "dict_type": "a table",
    "model_type": "a table",
    "literal_error": "{expected}",
    "greater_than": "above {gt:g}",
    "less_than": "below {lt:g}",
    "less_than_equal": "at most {le:g}",
    "greater_than_equal": "at least {ge:g}",
}
"""Type of a pydantic error → what the value must be."""


def load(model: type[Model], path: Path, what: str, fix: str = "correct the file") -> Model:
    """The file as an instance of `model`; one Problem lists all its mistakes. `what`: "a toolchain file"."""
    source = read(path)
    try:
        return model.model_validate(source.table)
    except ValidationError as error:
        add_mistakes(source, error.errors(include_url=False), model, what)
    raise source.problem(fix)


def add_mistakes(
    source: Source,
    rejected: Iterable[ErrorDetails],
    model: type[BaseModel],
    what: str,
    *,
    inside: Location = (),
    more_keys: Iterable[str] = (),
    wording: Mapping[str, str] | None = None,
) -> None:
    """Note what pydantic rejected. `inside`: where in the file the validated table stands.

    `more_keys`: keys at its top that the model lacks. `wording`: type of a pydantic error → own words for it.
    """
    for details in rejected:
        kind = details["type"]
        message = (wording or {}).get(kind) or _message(details, model, what, more_keys)
        source.mistake((*inside, *_place(details)), message)


def _place(details: ErrorDetails) -> Location:
    """With the index into an array that a validator named."""
    index = details.get("ctx", {}).get("index")
    return details["loc"] if index is None else (*details["loc"], index)


def _message(details: ErrorDetails, model: type[BaseModel], what: str, more_keys: Iterable[str]) -> str:
    kind, context = details["type"], details.get("ctx", {})
    if kind == "extra_forbidden":
        *table, name = details["loc"]
        known = [*keys_at(model, table), *(() if table else more_keys)]
        homes = [] if table else _tables_with(str(name), model)
        return "unknown key" + (f"; it belongs in [{homes[0]}]" if homes else suggest(str(name), known))
    if kind == "missing":
        return f"missing: {what} must give it"
    if kind == "value_error":
        return str(context["error"])
    expected = _EXPECTED.get(kind, "").format(**context)
    if not expected and details["msg"].startswith("Input should be "):
        expected = details["msg"].removeprefix("Input should be ")
    return f"must be {expected}, not {spelled(details['input'])}" if expected else details["msg"]


def keys_at(model: type[BaseModel], table: Iterable[str | int]) -> list[str]:
    """The keys that a table of the file may have, as they are written there."""
    models = [model]
    for key in table:
        annotations = [annotation for name, annotation in _fields(models) if name == key]
        if annotations:  # else the index of an array, or a key of the user's own
            models = [found for annotation in annotations for found in _models_in(annotation)]
    return list(dict.fromkeys(name for name, _ in _fields(models)))


def _tables_with(name: str, model: type[BaseModel]) -> list[str]:
    """The tables at the top of the file that have this key."""
    return [
        table
        for table, annotation in _fields([model])
        if any(name == key for key, _ in _fields(_models_in(annotation)))
    ]


def _fields(models: Iterable[type[BaseModel]]) -> Iterator[tuple[str, Any]]:
    """(key, annotation)."""
    for model in models:
        for name, field in model.model_fields.items():
            alias = field.validation_alias or field.alias
            yield alias if isinstance(alias, str) else name, field.annotation


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models_in(argument)
