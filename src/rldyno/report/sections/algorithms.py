"""Algorithms against each other, in the hands of each contestant: a table, values, learning curves."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from rldyno.answers.algorithms import FINAL, Match
from rldyno.answers.groups import THRESHOLD, Row
from rldyno.answers.wording import algorithm_words
from rldyno.columns import Column
from rldyno.report.charts import dashed_rows, draw_dashed_bands, draw_intervals, interval_row
from rldyno.report.libraries import alt
from rldyno.report.material import GroupPlace, Material
from rldyno.report.parts import plain_axis
from rldyno.report.section import Chart, Panel, Section
from rldyno.report.sections.answer import INTERVALS
from rldyno.report.sections.learning import CURVES
from rldyno.report.theme import AltairChart, Theme
from rldyno.text.numbers import count, factor, number, span
from rldyno.text.tables import Table

# One after the other: both axes of learning that algorithms differ in.
DRAWN = tuple(curve for curve in CURVES if curve.id in ("learning-steps", "learning-time"))
# Sentences that are not folded away.
SHOWN = 6
COLUMNS = (
    "Contestant",
    "Comparison",
    "Algorithm",
    "Runs",
    "Steps",
    "Episodes",
    "Return at the end",
    "Time to threshold, s",
    "Against the best",
)
CURVE_CAPTION = (
    "A colour is a contestant, a dash an algorithm. Running means as in Learning; lines are medians over "
    "seeds, bands lie between the quartiles."
)


def by_place(material: Material) -> dict[str, list[Match]]:
    found: dict[str, list[Match]] = {}
    for match in material.analysis.matches:
        found.setdefault(match.place, []).append(match)
    return found


def charts(material: Material) -> list[Panel]:
    found = []
    algorithms = tuple(dict.fromkeys(group.algorithm for group in material.groups))
    for index, (place, matches) in enumerate(by_place(material).items()):
        here = [item for item in material.places if belongs(item, matches[0])]
        drawn = [*map(partial(values_chart, matches), matches[0].metrics), *curve_charts(here, algorithms)]
        kept = tuple(chart for chart in drawn if not chart.empty)
        found.append(Panel(f"algorithms-{index}", place, kept, "Not recorded."))
    return found


def belongs(place: GroupPlace, match: Match) -> bool:
    """Whether a comparison is one of those that the match was made from."""
    mine, its = (
        {name: value for name, value in axes.items() if name != "algorithm"}
        for axes in (place.group.axes, match.group.axes)
    )
    return mine == its


def values_chart(matches: Sequence[Match], metric: Column) -> Chart:
    unit = f", {metric.unit}" if metric.unit else ""
    draw = partial(draw_values, x_title=f"{metric.words}{unit}", from_zero=metric is THRESHOLD)
    rows = [
        row | {"order": order}
        for order, row in enumerate(row for match in matches for row in value_rows(match, metric))
    ]
    return Chart(f"algorithms-{metric.key}", f"{metric.heading}, by algorithm", INTERVALS, draw, rows)


def value_rows(match: Match, metric: Column) -> Iterator[dict[str, Any]]:
    barred = match.trust(metric).barred
    for row in match.group.rows:
        figure = row.figures.get(metric.name)
        if figure is not None and math.isfinite(figure.estimate.point):
            names = {"contestant": match.contestant, "label": f"{match.contestant}, {row.contestant}"}
            yield names | interval_row(figure.estimate, row.unranked is None and not barred, metric)


def draw_values(theme: Theme, title: str, x_title: str, from_zero: bool) -> AltairChart:
    axis, scale = plain_axis(tick_count=6), alt.Scale(zero=from_zero)
    return draw_intervals(
        theme, title, x_title, axis, scale, at_least=None, legend=False, field="label:N", lines=2
    )


def curve_charts(places: Sequence[GroupPlace], algorithms: Sequence[str]) -> Iterator[Chart]:
    for curve in DRAWN:
        rows = [
            row
            for place in places
            for band in place.series.bands[curve.id]
            for row in dashed_rows(band, place.group.algorithm)
        ]
        draw = partial(
            draw_dashed_bands,
            x_title=curve.x_title,
            y_title=curve.y_title,
            zero=curve.zero,
            parts=algorithms,
            part_title="algorithm",
        )
        yield Chart(f"algorithms-{curve.id}", f"{curve.title}, by algorithm", CURVE_CAPTION, draw, rows)


def tables(material: Material) -> list[Table]:
    rows = tuple(
        table_row(match, row) for match in material.analysis.matches for row in match.group.rows if row.done
    )
    title = "Algorithm against algorithm: estimates with 95 % intervals, or ranges of too few runs"
    table = Table("algorithms", title, COLUMNS, rows)
    timed = any(THRESHOLD in match.metrics for match in material.analysis.matches)
    return [table if timed else without(table, COLUMNS.index("Time to threshold, s"))] if rows else []


def without(table: Table, index: int) -> Table:
    columns, *rows = ((*cells[:index], *cells[index + 1 :]) for cells in (table.columns, *table.rows))
    return Table(table.name, table.title, columns, tuple(rows))


def table_row(match: Match, row: Row) -> tuple[str, ...]:
    runs = match.group.runs[row.contestant]
    amounts = (runs.middle(name) for name in ("steps", "episodes"))
    return (
        match.contestant,
        match.place,
        row.contestant,
        str(row.done),
        *("–" if amount is None else count(amount) for amount in amounts),
        value_words(row, FINAL),
        value_words(row, THRESHOLD) if THRESHOLD in match.metrics else "–",
        standing(match, row),
    )


def value_words(row: Row, metric: Column) -> str:
    figure = row.figures.get(metric.name)
    if figure is None:
        return "–"
    if math.isinf(figure.estimate.point):
        return figure.note or "not reached"
    ends = span(figure.estimate, dash=" to ")
    return f"{number(figure.estimate.point)} ({ends})" if ends else number(figure.estimate.point)


def standing(match: Match, row: Row) -> str:
    """By the metric that algorithms are ranked by here."""
    trust, figure = match.trust(match.primary), row.figures.get(match.primary.name)
    if row.unranked is not None:
        return f"not ranked: {row.unranked}"
    if trust.barred or figure is None:
        return "no winner"
    if figure.first:
        return "best" if figure.best else "no clear winner"
    size = "" if figure.ratio is None or match.primary is FINAL else factor(figure.ratio.point)
    return " ".join(filter(None, [size or "worse", "" if figure.clearly_worse else "(may be chance)"]))


def context(material: Material) -> dict[str, Any]:
    sentences = []
    for match in material.analysis.matches:
        pick, trust = match.pick(match.primary), match.trust(match.primary)
        said = (
            f"With `{match.contestant}`, no winner. {trust.words}"
            if pick is None
            else " ".join(filter(None, [algorithm_words(match.contestant, pick), trust.words]))
        )
        sentences.append(f"{match.place}: {said}")
    return {
        "sentences": sentences,
        "shown": SHOWN,
        "budgets": list(dict.fromkeys(match.budget_words for match in material.analysis.matches)),
    }


SECTION = Section(
    id="algorithms",
    order=55,
    title="Algorithm against algorithm",
    short="Algorithms",
    about="return at the end and time to the threshold of each algorithm, in each contestant",
    charts=charts,
    tables=tables,
    context=context,
    legend=True,
)
