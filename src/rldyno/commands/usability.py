"""`rldyno usability`: what installing, writing, debugging, watching and deploying cost in each framework."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rldyno.commands.options import Toolchains

if TYPE_CHECKING:
    from rich.console import Console

    from rldyno.text.tables import Table
    from rldyno.usability.record import Absent, UsabilityFile

# Too long for a terminal; the files and the report have them.
MESSAGES = "usability-messages"


def usability(
    frameworks: Annotated[
        list[str] | None,
        typer.Argument(metavar="[FRAMEWORK]...", help="Frameworks to measure. Default: all."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "-o", "--out", metavar="FILE", help="Write JSON here, and .md, .tex and .csv in the same folder."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
    part: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Only this part; repeatable. install, start, code, mistakes, data, visualisation, "
            "parallel, save, export, deployment, release, community, compatibility.",
        ),
    ] = None,
    releases: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Also install the releases of N earlier series, and see whether they still run the backend. "
            "Takes minutes and gigabytes. Of --part compatibility: 3.",
        ),
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Measure everything again.")] = False,
    toolchain: Toolchains = None,
) -> None:
    """Measure how usable each framework is: facts, not opinions. The cache keeps the results."""
    import json

    from rich.console import Console

    from rldyno.toolchains.resolve import parse_overrides
    from rldyno.usability import measure
    from rldyno.usability.tables import all_tables

    names, parts = chosen_frameworks(frameworks or []), chosen_parts(part or [], releases is not None)
    errors = Console(stderr=True, highlight=False)

    def print_part(framework: str, part: str) -> None:
        errors.print(f"measuring {framework}: {part}", style="dim", markup=False)

    given = parse_overrides(toolchain or [])
    found = measure.gather(names, given, parts, fresh, print_part, releases or measure.EARLIER)
    tables = all_tables(found.frameworks)
    if as_json:
        print(json.dumps(found.to_json(), indent=1))
    else:
        print_tables(tables, found.absent, Console(highlight=False))
    if out is not None:
        for path in write_files(out, found, tables):
            print(path, file=sys.stderr)
    if frameworks and found.absent:
        raise typer.Exit(1)


def chosen_frameworks(names: list[str]) -> list[str]:
    from rldyno.toolchains.catalogue import catalogue, unknown

    known = catalogue()
    for name in names:
        if name not in known:
            raise unknown(name, known)
    return list(dict.fromkeys(names)) or list(known)


def chosen_parts(names: list[str], compatibility: bool = False) -> list[str]:
    """Those that are named, else all but those on demand."""
    from rldyno.errors import Problem
    from rldyno.usability.measure import ON_DEMAND, PARTS

    for name in names:
        if name not in PARTS:
            raise Problem(f"unknown part `{name}`", fix=f"--part takes one of {', '.join(PARTS)}")
    chosen = names or [part for part in PARTS if part not in ON_DEMAND]
    return [part for part in PARTS if part in chosen or (compatibility and part == "compatibility")]


def print_tables(tables: list[Table], absent: Mapping[str, Absent], console: Console) -> None:
    for table in tables:
        if table.name != MESSAGES:
            console.print(fitting(table, console))
    for name, why in absent.items():
        console.print(f"{name}: not measured, {why.reason}", style="yellow", markup=False)
        console.print(f"  fix: {why.fix}", markup=False)


def fitting(table: Table, console: Console) -> Any:
    """A grid where no word has to be cut for it, else cards."""
    # Two blanks and a rule between columns.
    widths = column_widths(table, console.width - 3 * len(table.columns))
    return cards(table) if widths is None else grid(table, widths)


def column_widths(table: Table, available: int) -> list[int] | None:
    """As wide as the texts, the widest made narrower until all fit; None if words would have to be cut."""
    columns = list(zip(table.columns, *table.rows, strict=True))
    least = [max(len(word) for text in texts for word in text.split() or [""]) for texts in columns]
    longest = [min(available, max(map(len, texts))) for texts in columns]
    widths = list(map(max, longest, least))
    while sum(widths) > available:
        wrapping = [index for index, width in enumerate(widths) if width > least[index]]
        if not wrapping:
            return None
        widths[max(wrapping, key=lambda index: widths[index])] -= 1
    return widths


def grid(table: Table, widths: list[int]) -> Any:
    from rich import box
    from rich.table import Table as Shown
    from rich.text import Text

    from rldyno.text.tables import holds_numbers

    title = Text(table.title, "bold")
    shown = Shown(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for index, (column, width) in enumerate(zip(table.columns, widths, strict=True)):
        right = index > 0 and holds_numbers(table, index)
        shown.add_column(column, justify="right" if right else "left", width=width)
    for row in table.rows:
        shown.add_row(*map(Text, row))
    return shown


def cards(table: Table) -> Any:
    """A block for each row, for narrow terminals."""
    from rich.console import Group
    from rich.table import Table as Shown
    from rich.text import Text

    shown = Shown.grid(padding=(0, 2))
    shown.add_column(no_wrap=True, style="dim")
    shown.add_column()
    for row in table.rows:
        shown.add_row(Text(row[0], "bold"), "")
        for column, cell in zip(table.columns[1:], row[1:], strict=True):
            shown.add_row(f"  {column}", Text(cell))
    return Group(Text(table.title, "bold underline"), shown, "")


def write_files(out: Path, found: UsabilityFile, tables: list[Table]) -> list[Path]:
    """The record at `out`; beside it all tables as Markdown and LaTeX, and each as CSV."""
    from rldyno.errors import Problem
    from rldyno.records.files import write_atomically
    from rldyno.text.tables import comma_separated, latex, markdown
    from rldyno.usability.store import write_beside

    texts = {
        out.with_suffix(".md"): "\n".join(map(markdown, tables)),
        out.with_suffix(".tex"): "\n".join(map(latex, tables)),
        **{out.with_name(f"{out.stem}-{csv_name(table)}.csv"): comma_separated(table) for table in tables},
    }
    try:
        write_beside(out, found)
        for path, text in texts.items():
            write_atomically(path, text)
    except OSError as error:
        raise Problem(
            f"cannot write {error.filename or out}: {error.strerror}",
            fix="free some space, or choose another place with -o FILE",
            code=1,
        ) from error
    return [out, *texts]


def csv_name(table: Table) -> str:
    return table.name.removeprefix("usability-")
