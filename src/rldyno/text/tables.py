"""Tables of words and numbers, as Markdown, LaTeX and CSV."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable
from dataclasses import dataclass

from rldyno.libraries import needed_for


@dataclass(frozen=True)
class Table:
    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def markdown(table: Table) -> str:
    return f"**{markdown_escaped(table.title)}**\n\n{tabulated(table, 'pipe', markdown_escaped)}\n"


def latex(table: Table) -> str:
    """A table for the booktabs package."""
    body = tabulated(table, "latex_booktabs", one_line)
    # `\\` at the end of a row takes a bracket or a star that follows for an argument.
    body = re.sub(r"(?m)^( *)([\[*])", r"\1{}\2", body)
    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{latex_escaped(table.title)}}}",
        with_symbols(body),
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def tabulated(table: Table, form: str, escaped: Callable[[str], str]) -> str:
    with needed_for("Markdown and LaTeX tables"):
        from tabulate import tabulate
    text: str = tabulate(
        [list(map(escaped, row)) for row in table.rows],
        headers=list(map(escaped, table.columns)),
        tablefmt=form,
        # Texts stay as they are: `1.50` must not become `1.5`.
        disable_numparse=True,
        colalign=["right" if holds_numbers(table, index) else "left" for index in range(len(table.columns))],
    )
    return text


def markdown_escaped(text: str) -> str:
    """Inert in Markdown, whatever a name holds: no cell, emphasis, code, link or HTML of its own."""
    escaped = re.sub(r"([\\`*|\[\]])", r"\\\1", one_line(text))
    # An underscore within a word is no emphasis.
    escaped = re.sub(r"(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])", r"\\_", escaped)
    return escaped.replace("&", "&amp;").replace("<", "&lt;")


def latex_escaped(text: str) -> str:
    """As tabulate escapes the cells of a LaTeX table, and with our symbols."""
    row = tabulated(Table("", "", (text,), ()), "latex_booktabs", one_line).splitlines()[2]
    return with_symbols(row.strip().removesuffix(r"\\").strip())


SYMBOLS = {"–": "--", "×": r"$\times$", "·": r"$\cdot$", "∞": r"$\infty$", "µ": r"$\mu$", "≥": r"$\geq$"}


def with_symbols(text: str) -> str:
    """Characters that LaTeX's usual fonts have only as commands."""
    return "".join(SYMBOLS.get(character, character) for character in text)


def one_line(text: str) -> str:
    """Without line ends and control characters, which would break a row."""
    return " ".join("".join(character if character.isprintable() else " " for character in text).split())


def comma_separated(table: Table) -> str:
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(table.columns)
    writer.writerows(table.rows)
    return stream.getvalue()


def holds_numbers(table: Table, index: int) -> bool:
    """Whether a column holds numbers: all its cells begin with one, or show that there is none."""
    cells = [row[index] for row in table.rows]
    return bool(cells) and all(cell.lstrip("+-")[:1].isdigit() or cell[:1] in "–∞" for cell in cells)
