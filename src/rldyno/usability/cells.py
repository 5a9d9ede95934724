"""What the tables of usability share: rows by framework, figures, and the sign for what was not measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rldyno.text.numbers import number
from rldyno.text.tables import Table
from rldyno.usability.record import UsabilityRecord

Records = Mapping[str, UsabilityRecord]
NOT_MEASURED = "–"


def made(
    name: str, title: str, columns: Sequence[str], records: Records, parts: Sequence[str], row: Any
) -> Table:
    """A table with a row for each framework of which one of the parts was measured."""
    rows = [row(framework, record) for framework, record in records.items() if any_of(record, parts)]
    return Table(name, title, ("Framework", *columns), tuple(rows))


def any_of(record: UsabilityRecord, parts: Sequence[str]) -> bool:
    return any(record.part(name) for name in parts)


def figure(value: float | None, scale: float = 1.0) -> str:
    return NOT_MEASURED if value is None else number(value * scale)


def whole(value: int | None) -> str:
    return NOT_MEASURED if value is None else str(value)


def yes(value: bool | None) -> str:
    return NOT_MEASURED if value is None else "yes" if value else "no"
