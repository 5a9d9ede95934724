"""One row of the result table from the records of a trial, and why a figure of it is missing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rldyno.columns import Column

Row = dict[str, Any]
Path = tuple[str, ...]

PENDING = "pending"
NO_RESULT = "the worker left no result"
NOT_KEPT = "recorded before this figure was measured"
_TRIAL_FILE = "trial:"


class RowReader:
    """Made once for a table: columns of one object of a record are looked up together."""

    def __init__(self, columns: Iterable[Column]) -> None:
        self._columns = {column.name: column for column in columns}
        self._settings: dict[Path, list[tuple[str, str]]] = {}
        self._measured: dict[Path, list[tuple[str, str]]] = {}
        for column in self._columns.values():
            if column.source:
                from_trial = column.source.startswith(_TRIAL_FILE)
                *path, field = column.source.removeprefix(_TRIAL_FILE).split(".")
                blocks = self._settings if from_trial else self._measured
                blocks.setdefault(tuple(path), []).append((column.name, field))
        self._derived = [column for column in self._columns.values() if column.derive is not None]

    def row(self, trial: str, trial_file: Mapping[str, Any], outcome: Mapping[str, Any] | None) -> Row:
        """Without an outcome: the settings of a trial that has not ended."""
        row: Row = {"trial": trial, **_values(trial_file, self._settings)}
        if outcome is None:
            return row | {"status": PENDING}
        row |= _values(outcome, self._measured)
        for column in self._derived:
            assert column.derive is not None
            known = [row[column.name]] if column.source else []
            known += [row.get(part) for part in column.parts]
            row[column.name] = None if None in known else column.derive(*known)
        return row

    def reasons(self, outcome: Mapping[str, Any], row: Row) -> dict[str, str]:
        """Column → why it is empty, for every one that should hold a value and does not."""
        return {
            name: self._why(column, outcome, row)
            for name, column in self._columns.items()
            if row.get(name) is None and not column.may_be_empty
        }

    def _why(self, column: Column, outcome: Mapping[str, Any], row: Row) -> str:
        for part in column.parts:
            if row.get(part) is None:
                return self._why(self._columns[part], outcome, row)
        return _said(column, outcome) or column.missing or NOT_KEPT


def _said(column: Column, outcome: Mapping[str, Any]) -> str | None:
    """The reason that the record itself gives: for the value, or for the object that would hold it."""
    if not column.source or column.source.startswith(_TRIAL_FILE):
        return None
    *path, field = column.source.split(".")
    said: str | None = (find_block(outcome, path).get("reasons") or {}).get(field)
    if not said and path:
        said = (outcome.get("reasons") or {}).get(path[0])
        if not said and path[0] == "result" and outcome.get("result") is None:
            return NO_RESULT
    return said


def _values(record: Mapping[str, Any], blocks: Mapping[Path, list[tuple[str, str]]]) -> Row:
    row: Row = {}
    for path, columns in blocks.items():
        block = find_block(record, path)
        for name, field in columns:
            row[name] = block.get(field)
    return row


def find_block(record: Mapping[str, Any], path: Iterable[str]) -> Mapping[str, Any]:
    """The object under a path of names; empty where the record has none."""
    block = record
    for name in path:
        inner = block.get(name)
        if not isinstance(inner, dict):
            return {}
        block = inner
    return block


def shares_text(value: Any) -> Any:
    """Shares by name as one text: `power limit 25%, heat 3%`."""
    if not isinstance(value, dict):
        return value
    return ", ".join(f"{name} {share:.0%}" for name, share in value.items()) or "none"
