"""One row of the result table from the records of a trial, and why a figure of it is missing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from rldyno.columns import Column
from rldyno.errors import Problem
from rldyno.records.outcome import NO_RESULT, Outcome
from rldyno.records.outcome import NOT_RECORDED as NOT_KEPT
from rldyno.records.status import PENDING
from rldyno_rig.trial_file import TrialFile

Row = dict[str, Any]
Path = tuple[str, ...]
Blocks = dict[Path, list[tuple[str, str]]]
"""Path of an object in a record → (column, field) of what it holds: each object is looked up once."""
_TRIAL_FILE = "trial:"
KINDS: Mapping[Any, tuple[type, ...]] = {int: (int, float), float: (int, float), str: (str,), bool: (bool,)}
"""Kind of a column → types of its values in a record."""


class RowReader:
    """Made once for a table."""

    def __init__(self, columns: Iterable[Column]) -> None:
        self._columns = {column.name: column for column in columns}
        self._settings: Blocks = {}
        self._measured: Blocks = {}
        for column in self._columns.values():
            if column.source:
                blocks = self._settings if column.source.startswith(_TRIAL_FILE) else self._measured
                *path, field = column.source.removeprefix(_TRIAL_FILE).split(".")
                blocks.setdefault(tuple(path), []).append((column.name, field))
        self._texts = [
            name for block in self._measured.values() for name, _ in block if self._columns[name].kind is str
        ]
        self._converted = [
            (column.name, column.derive)
            for column in self._columns.values()
            if column.derive is not None and not column.parts
        ]
        self._computed = [
            (column, column.derive)
            for column in self._columns.values()
            if column.derive is not None and column.parts
        ]
        self._kinds = [
            (name, self._columns[name].kind) for block in self._measured.values() for name, _ in block
        ]
        self._default_reasons = {name: column.missing or NOT_KEPT for name, column in self._columns.items()}
        self._explained = [
            name
            for name, column in self._columns.items()
            if not column.may_be_empty and (column.source or column.derive)
        ]

    def settings(self, trial: str, trial_file: TrialFile) -> Row:
        """The row of a trial that has not ended."""
        contestant = trial_file.contestant
        names = {"contestant": str(contestant), "framework": contestant.framework, "mode": contestant.mode}
        row: Row = {"trial": trial, "status": PENDING}
        for path, columns in self._settings.items():
            block = _block(trial_file, path) if path else vars(trial_file) | names
            for name, field in columns:
                row[name] = block.get(field)
        return row

    def measured(self, row: Row, outcome: Outcome) -> tuple[Row, dict[str, str]]:
        """The row of a trial that has ended; column → why it is empty, for those that should hold a value."""
        row = dict(row)
        said: dict[str, str] = {}
        """What the record itself gives as the reason."""
        record = {**outcome.sections, **vars(outcome)}
        for path, columns in self._measured.items():
            block = _block(record, path)
            for name, field in columns:
                row[name] = block.get(field)
            empty = [pair for pair in columns if row[pair[0]] is None]
            if empty:
                reasons, whole = _texts(block.get("reasons")), _reason_of_block(outcome, path)
                said |= {name: why for name, field in empty if (why := reasons.get(field) or whole)}
        for name in self._texts:
            row[name] = shares_text(row[name])
        for name, convert in self._converted:
            if row[name] is not None:
                row[name] = _converted(name, convert, row[name])
        self._check_kinds(row)
        for column, derive in self._computed:
            self._compute(column, derive, row, said)
        missing = [name for name in self._explained if row[name] is None]
        return row, {name: said.get(name) or self._default_reasons[name] for name in missing}

    def _check_kinds(self, row: Row) -> None:
        """A Problem when a record holds a text where a number must be, or the like."""
        for name, kind in self._kinds:
            value = row[name]
            if value is None:
                continue
            if type(value) not in KINDS[kind]:
                raise Problem(f"`{name}` has a value of the wrong kind", code=1)
            if int in (kind, type(value)) and abs(value) >= 2**63:
                raise Problem(f"`{name}` is too large", code=1)

    def _compute(self, column: Column, derive: Callable[..., Any], row: Row, said: dict[str, str]) -> None:
        name = column.name
        known = [row.get(part) for part in column.parts]
        if column.parts_may_miss:
            row[name] = derive(row[name], *known) if column.source else derive(*known)
        elif None in known:
            part = column.parts[known.index(None)]
            row[name], said[name] = None, said.get(part) or self._default_reasons[part]
        elif not column.source:
            row[name] = derive(*known)
        elif row[name] is not None:
            row[name] = derive(row[name], *known)


def _converted(name: str, convert: Callable[..., Any], value: Any) -> Any:
    try:
        return convert(value)
    except (TypeError, ValueError, AttributeError, KeyError) as error:
        raise Problem(f"`{name}` has a value of the wrong kind", code=1) from error


def _block(record: Any, path: Path) -> Mapping[str, Any]:
    """The object under a path of names; empty where the record has none."""
    block = record
    for name in path:
        block = block.get(name) if isinstance(block, dict) else getattr(block, name, None)
    if isinstance(block, dict):
        return block
    return getattr(block, "__dict__", {})


def _texts(reasons: Any) -> Mapping[str, str]:
    return {name: str(why) for name, why in reasons.items() if why} if isinstance(reasons, dict) else {}


def _reason_of_block(outcome: Outcome, path: Path) -> str | None:
    """Why the whole object is not there: the outcome's reason for it, or for the worker's result."""
    said = outcome.reasons.get(path[0]) if path else None
    if said or outcome.result is not None:
        return said
    return outcome.reasons.get("result") or NO_RESULT


def shares_text(value: Any) -> Any:
    """Shares by name as one text: `power limit 25%, heat 3%`."""
    if not isinstance(value, dict):
        return value
    return ", ".join(f"{name} {share:.0%}" for name, share in value.items()) or "none"
