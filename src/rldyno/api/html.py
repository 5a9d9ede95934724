"""Comparisons as a notebook shows them. Every text is escaped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING

from rldyno.api.answer import html_table, sentence_html
from rldyno.text.numbers import factor, interval, number

if TYPE_CHECKING:
    from rldyno.answers.groups import Group, MetricValue
    from rldyno.columns import Column

# Comparisons that a notebook shows of a large study.
GROUPS_SHOWN = 12


def comparison_html(groups: Sequence[Group]) -> str:
    """A table per comparison, contestants × metrics, and what is objected to it."""
    tables = "".join(
        f"<h4>{escape(group.label)}</h4>{group_table(group)}<p>{sentence_html(group.trust.words)}</p>"
        for group in groups[:GROUPS_SHOWN]
    )
    rest = len(groups) - GROUPS_SHOWN
    more = f"<p>… and {rest} more comparisons.</p>" if rest > 0 else ""
    note = "In brackets: the 95 % interval over seeds. 3.2×: that many times worse than the best."
    return f"{tables}{more}<p><small>{note}</small></p>"


def group_table(group: Group) -> str:
    columns = ["Contestant", *(f"{metric.heading}, {metric.unit}" for metric in group.metrics), "Note"]
    return html_table(columns, _rows(group))


def _rows(group: Group) -> Iterator[list[str]]:
    for row in group.rows:
        figures = (figure_text(row.figures.get(metric.name), metric) for metric in group.metrics)
        yield [row.contestant, *figures, f"not ranked: {row.unranked}" if row.unranked else ""]


def figure_text(figure: MetricValue | None, metric: Column) -> str:
    """`5.9 [5.0, 7.5] 3.2×`."""
    if figure is None:
        return "–"
    estimate = figure.estimate
    parts = [number(estimate.point * metric.scale), interval(estimate, metric.scale)]
    parts.append(factor(figure.ratio.point) if figure.ratio is not None and not figure.first else None)
    return " ".join(filter(None, parts))
