"""Tables of words and figures, as Markdown, LaTeX and CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Table:
    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def markdown(table: Table) -> str:
    def line(cells: Sequence[str]) -> str:
        escaped = (cell.replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ") for cell in cells)
        return f"| {' | '.join(escaped)} |"

    rule = "|".join(
        ["---", *("---:" if is_figure(table, index) else "---" for index in range(1, len(table.columns)))]
    )
    return (
        "\n".join([f"**{table.title}**", "", line(table.columns), f"|{rule}|", *map(line, table.rows)]) + "\n"
    )


def latex(table: Table) -> str:
    """A table for the booktabs package."""
    align = "".join("r" if is_figure(table, index) else "l" for index in range(len(table.columns)))

    def line(cells: Sequence[str]) -> str:
        return " & ".join(map(latex_escaped, cells)) + r" \\"

    return "\n".join(
        [
            r"\begin{table}",
            r"  \centering",
            rf"  \caption{{{latex_escaped(table.title)}}}",
            rf"  \begin{{tabular}}{{{align}}}",
            r"    \toprule",
            f"    {line(table.columns)}",
            r"    \midrule",
            *(f"    {line(row)}" for row in table.rows),
            r"    \bottomrule",
            r"  \end{tabular}",
            r"\end{table}",
            "",
        ]
    )


LATEX = {
    "\\": r"\textbackslash{}",
    "–": "--",
    "×": r"$\times$",
    "·": r"$\cdot$",
    "∞": r"$\infty$",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{character: f"\\{character}" for character in "&%$#_{}"},
}


def latex_escaped(text: str) -> str:
    return "".join(LATEX.get(character, character) for character in text.replace("\n", " "))


def comma_separated(table: Table) -> str:
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(table.columns)
    writer.writerows(table.rows)
    return stream.getvalue()


def is_figure(table: Table, index: int) -> bool:
    """Whether a column holds figures: all its cells begin with a number, or say that there is none."""
    cells = [row[index] for row in table.rows]
    return bool(cells) and all(cell.lstrip("+-")[:1].isdigit() or cell[:1] in "–∞" for cell in cells)
