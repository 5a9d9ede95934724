"""The quick size of a study: its `[quick]` table over the study itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rldyno.errors import Problem
from rldyno.toml.write import toml_text

QUICK = "quick"
LEAVES_OUT = "leaves_out"


def quick_text(table: Mapping[str, Any], name: str) -> str:
    """The study in its quick size, as a study file."""
    return toml_text(quick_table(table, name))


def quick_table(table: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Its title and question say that it is the quick size."""
    changes = table.get(QUICK)
    if not isinstance(changes, dict):
        raise Problem(
            f"{name} has no quick size", fix=f"leave --quick out, or give the study a [{QUICK}] table"
        )
    left_out = changes.get(LEAVES_OUT, "")
    merged = over({key: value for key, value in table.items() if key != QUICK}, changes)
    merged.pop(LEAVES_OUT, None)
    merged["title"] = f"{merged.get('title') or name}, quick size"
    if left_out:
        merged["question"] = f"{merged.get('question', '')} The quick size leaves out: {left_out}".strip()
    return merged


def over(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """`above` wins; tables are merged."""
    merged = dict(below)
    for key, value in above.items():
        deeper = isinstance(value, dict) and isinstance(below.get(key), dict)
        merged[key] = over(below[key], value) if deeper else value
    return merged
