"""The report's tables as data."""

from __future__ import annotations

from collections.abc import Sequence

from rldyno.answers.divergence import Divergence
from rldyno.answers.groups import CERTIFICATE_WORDS, Group, Row
from rldyno.columns import Column
from rldyno.report.crimes import Finding
from rldyno.report.parity import ParityTable
from rldyno.report.verdicts import JudgedClaim
from rldyno.text.numbers import factor, number, span
from rldyno.text.tables import Table


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


def figure_words(row: Row, metric: Column) -> str:
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
