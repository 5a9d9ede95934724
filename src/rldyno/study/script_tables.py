"""The tables of scripts in the studies that records hold."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping

from rldyno.records.files import Json
from rldyno.study.scripts import SCRIPT


def scripts_in(text: str) -> dict[str, Json]:
    """Script → its table; empty where the text is no TOML."""
    try:
        found = tomllib.loads(text).get(SCRIPT)
    except tomllib.TOMLDecodeError:
        return {}
    tables = found.items() if isinstance(found, dict) else ()
    return {name: table for name, table in tables if isinstance(table, dict)}


def studies_in(record: Json) -> Iterator[str]:
    """Texts of studies: the manifest's, and those before it was amended."""
    if isinstance(text := record.get("study_text"), str):
        yield text
    for change in record.get("amended") or ():
        if isinstance(change, Mapping) and isinstance(text := change.get("text_before"), str):
            yield text
