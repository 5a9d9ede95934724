"""Print a record and write its tables beside it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rldyno.errors import Problem
from rldyno.nets import tables
from rldyno.nets.figures import figures
from rldyno.nets.record import NetsRecord, read_record
from rldyno.nets.remarks import remarks
from rldyno.records import files as records
from rldyno.records.directory import NETS_FILE
from rldyno.text.tables import Table, comma_separated, holds_numbers, latex, markdown

if TYPE_CHECKING:
    from rich.console import Console


def read(directory: Path) -> NetsRecord:
    record = read_record(directory)
    if record is None:
        raise Problem(f"{directory} holds no {NETS_FILE}", fix="measure first: rldyno nets -o DIR")
    return record


def show(directory: Path, console: Console) -> None:
    """The tables on the console; Markdown, LaTeX and CSV in the directory."""
    record = read(directory)
    found = figures(record)
    everything = tables.call_table(record, found)
    ours_beside_paper = tables.paper_tables(record, found)
    rest = tables.kinds_beside_paper(record, found)
    shown = [*ours_beside_paper, *([tables.call_table(record, rest)] if rest else [])]
    for table in shown:
        print_table(table, console)
    if ours_beside_paper:
        console.print("Rows of 2017 are stooke2017's, copies included.")
    for line in remarks(record):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    written = [*ours_beside_paper, everything]
    for suffix, typeset in (("md", markdown), ("tex", latex)):
        text = "\n".join(typeset(table) for table in written)
        records.write_atomically(directory / f"nets.{suffix}", text)
    for table in (*ours_beside_paper, tables.data_table(found)):
        records.write_atomically(directory / f"{table.name}.csv", comma_separated(table))


def print_table(table: Table, console: Console) -> None:
    from rich import box
    from rich.table import Table as Shown

    from rldyno.text.terminal import print_fitting

    shown = Shown(title=table.title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for index, column in enumerate(table.columns):
        figure = holds_numbers(table, index)
        shown.add_column(column, justify="right" if figure else "left", overflow="fold")
    for row in table.rows:
        shown.add_row(*row)
    print_fitting(shown, console, ("Contestant", "µs per call"), "nets.md in the same directory")
