"""The answer: one sentence, and one chart over all comparisons."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from rldyno.answers.axes import axis_answers, folded_words
from rldyno.answers.groups import Group
from rldyno.answers.wording import headline, short_sentence
from rldyno.columns import Column
from rldyno.report.charts import draw_intervals, interval_row
from rldyno.report.libraries import alt
from rldyno.report.material import Material
from rldyno.report.parts import above, data, plain_axis, ratio_axis, reaching, rows_axis
from rldyno.report.section import Chart, Panel, Section, significant
from rldyno.report.theme import AltairChart, Theme, colour, finished, shape, visible
from rldyno.text.numbers import factor

INTERVALS = (
    "Points are estimates over seeds, lines their 95 % intervals, dashed lines the range of runs that are "
    "too few for an interval. Hollow points are shown but not ranked."
)

# Sentences about axes that are not folded away.
AXES_SHOWN = 4
# Of more comparisons than this, the first ones tell what the axes do.
GROUPS_ALONG_AXES = 40


def charts(material: Material) -> list[Panel]:
    """One over all comparisons; where there is only one comparison, its own."""
    if len(material.groups) == 1:
        return list(material.panels(lambda place: [answer_chart(place.group)]))
    rows = overview_rows(material.groups)
    if not rows:
        return []
    measured = ", or ".join(dict.fromkeys(group.primary.words for group in material.groups))
    caption = (
        "Each tick is a comparison, each point the geometric mean of its ticks: how many times worse "
        f"than the best of the comparison, by {measured}."
    )
    chart = Chart("overview", "All comparisons in one picture", caption, draw_overview, rows)
    return [Panel("run", "All trials", (chart,))]


def along_axes(material: Material) -> list[str]:
    """What each setting does to each contestant, as sentences."""
    if len(material.groups) <= GROUPS_ALONG_AXES:
        return folded_words(material.analysis.axis_answers)
    return folded_words(axis_answers(material.results, material.groups[:GROUPS_ALONG_AXES]))


def context(material: Material) -> dict[str, Any]:
    results, groups = material.results, material.groups
    return {
        "headline": headline(groups) if len(groups) > 1 else short_sentence(groups[0]),
        "along_axes": along_axes(material),
        "axes_shown": AXES_SHOWN,
        "pending": results.pending,
        "ended": len(results.ended),
        "trials": len(results.trials),
    }


def answer_chart(group: Group) -> Chart:
    metric = group.primary
    draw = partial(draw_answer, x_title=f"{metric.title.lower()}, {metric.unit}")
    return Chart(f"answer-{metric.key}", metric.title, INTERVALS, draw, answer_rows(group, metric))


def answer_rows(group: Group, metric: Column) -> list[dict[str, Any]]:
    """What can be drawn of the metric that the comparison is ranked by."""
    rows = []
    for order, row in enumerate(group.rows):
        figure = row.figures.get(metric.name)
        if figure is not None and math.isfinite(figure.estimate.point):
            ranked = row.unranked is None and not group.trust.barred
            names = {"contestant": row.contestant, "order": order}
            rows.append(names | interval_row(figure.estimate, ranked, metric))
    return rows


def overview_rows(groups: Sequence[Group]) -> list[dict[str, Any]]:
    """Every ranked contestant of every comparison against its best, and their geometric mean."""
    ratios: dict[str, list[tuple[str, float]]] = {}
    for group in groups:
        found = {
            row.contestant: figure.ratio.point
            for row in group.ranked
            if (figure := row.figures.get(group.primary.name)) is not None and figure.ratio is not None
        }
        # One alone is compared with nobody.
        for name, ratio in found.items() if len(found) > 1 else ():
            ratios.setdefault(name, []).append((group.label, ratio))
    means = {
        name: math.exp(np.mean([math.log(ratio) for _, ratio in found])) for name, found in ratios.items()
    }
    rows: list[dict[str, Any]] = []
    for order, name in enumerate(sorted(ratios, key=lambda name: (-len(ratios[name]), means[name]))):
        ticks = ratios[name]
        missing = f", in {len(ticks)} of {len(groups)}" if len(ticks) < len(groups) else ""
        base = {"contestant": name, "order": order}
        mean = {
            "comparison": None,
            "value": significant(means[name]),
            "text": f"{factor(means[name])}{missing}",
        }
        rows.append(base | mean)
        rows += [
            base | {"comparison": label, "value": significant(ratio), "text": factor(ratio)}
            for label, ratio in ticks
        ]
    return rows


def draw_answer(theme: Theme, title: str, x_title: str) -> AltairChart:
    axis, scale = plain_axis(tick_count=6), alt.Scale(zero=True)
    return draw_intervals(theme, title, x_title, axis, scale, at_least=None, legend=True)


def draw_overview(theme: Theme, title: str) -> AltairChart:
    """The whole study in one chart: every comparison a tick, their geometric mean a point."""
    base = visible(data())
    y = rows_axis(theme, "contestant:N")
    x = alt.X(
        "value:Q",
        title="times worse than the best of its comparison",
        scale=alt.Scale(type="log", domainMin=1, nice=False),
        axis=ratio_axis(),
    )
    each = (
        base.transform_filter("isValid(datum.comparison)")
        .mark_tick(thickness=2, size=13, opacity=0.5)
        .encode(
            x=x,
            y=y,
            color=colour(theme, legend=False),
            tooltip=[
                alt.Tooltip("contestant:N"),
                alt.Tooltip("comparison:N"),
                alt.Tooltip("text:N", title="times worse than the best"),
            ],
        )
    )
    mean = base.transform_filter("!isValid(datum.comparison)")
    point = mean.mark_point(size=110, filled=True, opacity=1).encode(
        x=x, y=y, color=colour(theme, legend=False), shape=shape(theme)
    )
    label = above(mean, theme).encode(x=x, y=y, text="text:N")
    return finished(alt.layer(each, point, label, reaching(2)), theme, title, height=alt.Step(34))


SECTION = Section(
    id="answer",
    order=10,
    title="Answer",
    charts=charts,
    context=context,
    shown=lambda _: True,
    open=True,
)
