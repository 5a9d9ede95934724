"""Every comparison in words, as a chart, and as a table that readers sort and filter."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rldyno.answers.groups import CERTIFICATE_WORDS, Group, Row
from rldyno.answers.wording import short_sentence
from rldyno.columns import Column
from rldyno.report.material import Material
from rldyno.report.section import Panel, Section
from rldyno.report.sections.answer import INTERVALS, answer_chart
from rldyno.report.sections.trust import badge
from rldyno.results.load import Results
from rldyno.text.numbers import factor, number, span
from rldyno.text.tables import Table

# Comparisons with a chart of their own; the others stand in words.
CARDS = 4
# Of fewer rows every reader finds theirs.
FILTERED = 8
# Tables with more rows than this, together, are folded away but for the first.
OPEN_ROWS = 9


@dataclass(frozen=True)
class Entry:
    """One number of the table; `sort` orders its column."""

    text: str
    sort: float
    span: str | None = None
    ratio: str | None = None
    note: str | None = None
    best: bool = False


@dataclass(frozen=True)
class EntryRow:
    row: Row
    certificate_words: str
    entries: tuple[Entry, ...]


def charts(material: Material) -> tuple[Panel, ...]:
    """A chart per comparison; that of a single one stands in the answer."""
    return material.panels(lambda place: [answer_chart(place.group)]) if len(material.groups) > 1 else ()


def context(material: Material) -> dict[str, Any]:
    groups = material.groups
    return {
        "filtered": sum(len(group.rows) for group in groups) > FILTERED,
        "open_tables": open_tables(groups),
        "sentences": [short_sentence(group) for group in groups],
        "badges": [badge(group) for group in groups],
        "caption": INTERVALS,
        "cards": CARDS,
        "groups": [(group, entry_rows(material.results, group)) for group in groups],
        "algorithms": list(dict.fromkeys(group.algorithm for group in groups)),
        "environments": list(dict.fromkeys(group.environment for group in groups)),
        "absences": material.absences,
    }


def open_tables(groups: Sequence[Group]) -> int:
    """How many tables a reader sees at once."""
    return next(
        (
            max(1, index)
            for index in range(len(groups))
            if sum(len(group.rows) for group in groups[: index + 1]) > OPEN_ROWS
        ),
        len(groups),
    )


def entry_rows(results: Results, group: Group) -> list[EntryRow]:
    return [
        EntryRow(
            row,
            CERTIFICATE_WORDS[row.certificate],
            tuple(entry(results, group, row, metric) for metric in group.metrics),
        )
        for row in group.rows
        if row.absent is None
    ]


def entry(results: Results, group: Group, row: Row, metric: Column) -> Entry:
    figure = row.figures.get(metric.name)
    if figure is None:
        return Entry("–", math.inf, note=results.why_empty(metric.name, group.runs[row.contestant].trials))
    point = figure.estimate.point * metric.scale
    if math.isinf(point):
        return Entry("not reached", 1e300, note=(figure.note or "").removeprefix("not reached "))
    ratio = figure.ratio
    return Entry(
        text=number(point),
        sort=point,
        span=span(figure.estimate, metric.scale),
        ratio="best" if figure.best else factor(ratio.point) if ratio and not figure.first else None,
        note=figure.note,
        best=figure.best,
    )


def tables(material: Material) -> list[Table]:
    return [comparison_table(place.group, f"{place.stem}--comparison") for place in material.places]


def comparison_table(group: Group, name: str) -> Table:
    columns = [f"{metric.title}, {metric.unit}" for metric in group.metrics]
    return Table(
        name=name,
        title=group.label,
        columns=("Contestant", *columns, "Seeds", "Certificate"),
        rows=tuple(
            (
                row.contestant,
                *(number_words(row, metric) for metric in group.metrics),
                str(row.done),
                CERTIFICATE_WORDS[row.certificate],
            )
            for row in group.rows
            if row.absent is None
        ),
    )


def number_words(row: Row, metric: Column) -> str:
    """`6.31 (5.02–7.51), 1.4×`; `∞` is never reached."""
    figure = row.figures.get(metric.name)
    if figure is None:
        return "–"
    bounds = span(figure.estimate, metric.scale)
    ratio = (
        "best" if figure.best else factor(figure.ratio.point) if figure.ratio and not figure.first else None
    )
    first = " ".join(
        filter(None, [number(figure.estimate.point * metric.scale), f"({bounds})" if bounds else None])
    )
    return ", ".join(filter(None, [first, ratio, figure.note]))


SECTION = Section(
    id="comparison",
    order=20,
    title="Comparison",
    charts=charts,
    tables=tables,
    context=context,
    shown=lambda _: True,
    open=True,
)
