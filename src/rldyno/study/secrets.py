"""What scripts were given that others should not see: keys, and paths with blanks."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from rldyno.records.files import Json
from rldyno.study.script_tables import scripts_in, studies_in

MASK = "removed"
PATH = "/removed"
_SHORTEST = 4
_WORDS = ("KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL", "CREDENTIALS", "AUTH")
_NO_SECRET = re.compile(r"true|false|none|null|removed|\{\w+\}", re.IGNORECASE)
_LOGIN = re.compile(r"://[^/\s:@]*:[^/\s@]+@")
_PATHS = re.compile(r"(?:^|(?<=[=:,;]))~?/[^:,;]*\s[^:,;]*")
"""With a blank: other paths are found wherever they stand."""


def looks_secret(name: str, value: str) -> bool:
    """`name`: of a variable or an option. By whole words: `TOKENIZERS_PARALLELISM` is no token."""
    if len(value) < _SHORTEST or _NO_SECRET.fullmatch(value):
        return False
    words = re.split(r"[^A-Z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).upper())
    return any(word.endswith(_WORDS) for word in words) or _LOGIN.search(value) is not None


def secret_arguments(arguments: Sequence[str]) -> Iterator[tuple[int, str, str]]:
    """Of `--token x`, `--token=x` and `token=x`: where x is, the option, and x."""
    for place, text in enumerate(arguments):
        name, equals, value = text.partition("=")
        if equals:
            if looks_secret(name, value):
                yield place, name, value
        elif text.startswith("-") and place + 1 < len(arguments):
            value = arguments[place + 1]
            if not value.startswith("-") and looks_secret(text, value):
                yield place + 1, text, value


def secret_names(records: Iterable[Json]) -> list[str]:
    """Variables and options that hold what looks like a secret."""
    return sorted({name for name, _ in _secrets(records)})


def secret_values(studies: Iterable[str]) -> list[str]:
    """What these studies give to scripts, as it is and as TOML writes it; the longest first."""
    found = {value for _, value in _secrets({"study_text": study} for study in studies)}
    written = {json.dumps(value, ensure_ascii=False)[1:-1] for value in found}
    return sorted(found | written, key=len, reverse=True)


def to_mask(records: Iterable[Json]) -> dict[str, str]:
    """Values that must not be found anywhere → what stands in their place."""
    kept = list(records)
    found = dict.fromkeys((value for _, value in _secrets(kept)), MASK)
    for value in _values(kept):
        found |= dict.fromkeys((path.rstrip("/") for path in _PATHS.findall(value)), PATH)
        if re.search(r"[\s@]", value) and "/" not in value and len(value) >= _SHORTEST:
            found[value] = MASK
    return found


def _secrets(records: Iterable[Json]) -> Iterator[tuple[str, str]]:
    for given in _given(records):
        yield from ((name, value) for name, value in _variables(given) if looks_secret(name, value))
        for arguments in _arguments(given):
            yield from ((name, value) for _, name, value in secret_arguments(arguments))


def _values(records: Iterable[Json]) -> Iterator[str]:
    """Variables, arguments that are paths, and places."""
    for given in _given(records):
        yield from (value for _, value in _variables(given))
        yield from (text for arguments in _arguments(given) for text in arguments if "/" in text)
        for place in filter(None, map(given.get, ("script", "interpreter"))):
            yield from (str(place), str(PurePath(str(place)).parent))


def _given(records: Iterable[Json]) -> Iterator[Mapping[str, Any]]:
    """What each trial and each table of a study gives to a script."""
    for record in records:
        if isinstance(guest := record.get("guest"), Mapping):
            yield guest
            yield {"interpreter": record.get("interpreter")}
        if isinstance(record.get("variables"), Mapping):
            yield {"variables": record["variables"]}
        for text in studies_in(record):
            yield from scripts_in(text).values()


def _variables(given: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    variables = given.get("variables")
    if isinstance(variables, Mapping):
        yield from ((str(name), str(value)) for name, value in variables.items())


def _arguments(given: Mapping[str, Any]) -> Iterator[list[str]]:
    more = given.get("algorithm_arguments")
    for value in (given.get("arguments"), *(more.values() if isinstance(more, Mapping) else ())):
        if isinstance(value, str | list | tuple):
            yield [value] if isinstance(value, str) else list(map(str, value))
