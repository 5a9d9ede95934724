"""Tables in a terminal of any width: columns that do not fit are left out, and a note names them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


def print_fitting(table: Table, console: Console, keep: Sequence[str], to_see: str) -> None:
    """Print it with as many columns as fit; the first and those in `keep` stay to the last.

    `to_see` says how to see the others.
    """
    left_out = fit(table, console, keep)
    console.print(table, soft_wrap=not _has_width(console))
    if left_out:
        named = ", ".join(left_out)
        console.print(f"Too wide for this terminal, left out: {named}. To see all: {to_see}", markup=False)


def fit(table: Table, console: Console, keep: Sequence[str]) -> list[str]:
    """Move columns together, then remove some from the right, until no word is cut; return their names.

    Files and pipes have no width: there the table gets what it needs.
    """
    if not _has_width(console):
        table.width = console.measure(table, options=console.options.update(width=1000)).maximum
        return []
    left_out: list[str] = []
    if not fits(table, console, console.width):
        table.padding = (0, 1, 0, 0)
    while len(table.columns) > 1 and not fits(table, console, console.width):
        names = [_name(column.header) for column in table.columns]
        optional = [index for index, name in enumerate(names) if index > 0 and name not in keep]
        index = optional[-1] if optional else len(names) - 1
        del table.columns[index]
        left_out.insert(0, names[index])
    return [name for name in left_out if name]


def fits(table: Table, console: Console, width: int) -> bool:
    # Rich leaves the space between columns out of the minimum.
    return console.measure(table).minimum + len(table.columns) <= width


def _has_width(console: Console) -> bool:
    return console.is_terminal or "COLUMNS" in os.environ


def _name(header: object) -> str:
    return " ".join(str(header).split())
