"""The report's tables as data, and as Markdown, LaTeX and CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass

from rldyno.answers.divergence import Divergence
from rldyno.answers.numbers import factor, number, span
from rldyno.answers.table import CERTIFICATE_WORDS, Group, Metric, Row
from rldyno.report.crimes import Finding
from rldyno.report.parity import ParityTable
from rldyno.report.verdicts import JudgedClaim


@dataclass(frozen=True)
class Table:
    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def comparison_table(group: Group, name: str) -> Table:
    columns = [f"{metric.title}, {metric.unit}" for metric in group.metrics]
    return Table(
        name=name,
        title=group.label,
        columns=("Contestant", *columns, "Seeds", "Certificate"),
        rows=tuple(
            (
                row.contestant,
                *(figure_words(row, metric) for metric in group.metrics),
                str(row.done),
                CERTIFICATE_WORDS[row.certificate],
            )
            for row in group.rows
            if row.absent is None
        ),
    )


def figure_words(row: Row, metric: Metric) -> str:
    """`6.31 (5.02–7.51), 1.4×`; `∞` is never reached."""
    figure = row.figures.get(metric.name)
    if figure is None:
        return "–"
    bounds = span(figure.estimate, metric.scale)
    ratio = "best" if figure.best else factor(figure.ratio.point) if figure.ratio else None
    first = " ".join(
        filter(None, [number(figure.estimate.point * metric.scale), f"({bounds})" if bounds else None])
    )
    return ", ".join(filter(None, [first, ratio, figure.note]))


def parity_as_table(parity: ParityTable, name: str) -> Table:
    return Table(
        name=name,
        title=f"Worst relative error per rung: {parity.label}",
        columns=("Contestant", "Certificate", *parity.rungs),
        rows=tuple(
            (
                row.contestant,
                row.words,
                *(f"{row.rungs[rung].error:.1e}" if rung in row.rungs else "–" for rung in parity.rungs),
            )
            for row in parity.rows
        ),
    )


def divergence_table(found: Sequence[tuple[str, Divergence]]) -> Table:
    return Table(
        name="divergence",
        title="First action that differs, with the same seed",
        columns=("Comparison", "Contestant", "Finding"),
        rows=tuple((label, item.contestant, plain(item.words)) for label, item in found),
    )


def crimes_table(findings: Sequence[Finding]) -> Table:
    return Table(
        name="crimes",
        title="Benchmarking crimes looked for",
        columns=("Crime", "Verdict", "Evidence", "Fix"),
        rows=tuple((item.name, item.verdict, item.evidence, plain(item.fix or "–")) for item in findings),
    )


def claims_table(claims: Sequence[JudgedClaim]) -> Table:
    return Table(
        name="claims",
        title="Claims held against these results",
        columns=("Claim", "Verdict", "Statement", "Why"),
        rows=tuple(
            (item.id, item.verdict, item.statement, "; ".join(item.reasons) or "–") for item in claims
        ),
    )


def plain(text: str) -> str:
    """Without the backticks around names."""
    return text.replace("`", "")


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
    """Whether a column holds figures: all its cells begin with a digit, or say that there is none."""
    cells = [row[index] for row in table.rows]
    return bool(cells) and all(cell[:1].isdigit() or cell[:1] in "–∞" for cell in cells)
