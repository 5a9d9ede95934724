"""Kinds of charts that sections share, each an Altair chart of the data set `rows`.

The data are left out: a report draws the same chart for many comparisons. A section that needs a kind of its
own builds it in its module, from `report/parts.py`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

from rldyno.columns import Column
from rldyno.report.external import external_layers
from rldyno.report.libraries import alt
from rldyno.report.parts import (
    ASIDE,
    above,
    bounded,
    dashed_ranges,
    data,
    hollow,
    note,
    part_colour,
    plain_axis,
    reaching,
    rows_axis,
    value_column,
)
from rldyno.report.section import Chart, digits, significant
from rldyno.report.series import Band, Curve
from rldyno.report.theme import DASHES, AltairChart, Theme, colour, dash, finished, shape, visible
from rldyno.stats.estimates import RANGE, Estimate
from rldyno.text.numbers import interval, number

# Of a curve in a chart that holds many.
DASHED_POINTS = 40


def band_chart(curve: Curve, bands: Sequence[Band], threshold: float | None = None) -> Chart:
    draw = partial(
        draw_bands, x_title=curve.x_title, y_title=curve.y_title, zero=curve.zero, external=curve.external
    )
    return Chart(curve.id, curve.title, curve.caption, draw, bands=bands, threshold=threshold)


def draw_bands(
    theme: Theme, title: str, x_title: str, y_title: str, zero: bool, external: bool = False
) -> AltairChart:
    """Medians as lines, quartiles as bands; the threshold as a dotted line: a row with nothing else.

    Of lines that lie on one another, those below are wider: their colours show on both sides.
    """
    base = visible(data().transform_filter("isValid(datum.x)")).encode(
        x=alt.X("x:Q", title=x_title, scale=alt.Scale(nice=False, zero=True), axis=plain_axis(tick_count=5)),
        color=colour(theme),
    )
    area = base.mark_area(opacity=0.16, interpolate="linear").encode(
        y=alt.Y("low:Q", title=y_title, scale=alt.Scale(zero=zero)), y2="high:Q"
    )
    line = base.mark_line(interpolate="linear").encode(
        y=alt.Y("y:Q", title=y_title),
        strokeDash=dash(theme),
        strokeWidth=alt.StrokeWidth("width:Q", scale=None, legend=None),
        tooltip=[
            alt.Tooltip("contestant:N"),
            alt.Tooltip("x:Q", title=x_title, format=",.4~g"),
            alt.Tooltip("y:Q", title=f"median {y_title}", format=",.4~g"),
            alt.Tooltip("low:Q", title="lower quartile", format=",.4~g"),
            alt.Tooltip("high:Q", title="upper quartile", format=",.4~g"),
        ],
    )
    layers = [area, line, note(theme), *(external_layers(theme, x_title, y_title) if external else [])]
    return finished(alt.layer(*layers, *([] if zero else [threshold_rule(theme)])), theme, title)


def dashed_rows(band: Band, part: str) -> list[dict[str, Any]]:
    """Of a band that another chart draws whole: with at most DASHED_POINTS points."""
    every = max(1, math.ceil(len(band.x) / DASHED_POINTS))
    columns = (digits(values[::every]) for values in (band.x, band.y, band.low, band.high))
    return [
        {"contestant": band.contestant, "part": part, "x": x, "y": y, "low": low, "high": high}
        for x, y, low, high in zip(*columns, strict=True)
    ]


def draw_dashed_bands(
    theme: Theme, title: str, x_title: str, y_title: str, zero: bool, parts: Sequence[str], part_title: str
) -> AltairChart:
    """Bands of several parts in one chart: a colour is a contestant, a dash a part."""
    base = visible(data()).encode(
        x=alt.X("x:Q", title=x_title, scale=alt.Scale(nice=False, zero=True), axis=plain_axis(tick_count=5)),
        color=colour(theme),
        detail="part:N",
    )
    area = base.mark_area(opacity=0.12).encode(
        y=alt.Y("low:Q", title=y_title, scale=alt.Scale(zero=zero)), y2="high:Q"
    )
    dashes = [list(DASHES[index % len(DASHES)]) for index in range(len(parts))]
    line = base.mark_line(strokeWidth=2).encode(
        y=alt.Y("y:Q", title=y_title),
        strokeDash=alt.StrokeDash(
            "part:N",
            scale=alt.Scale(domain=list(parts), range=dashes),
            legend=alt.Legend(title=None, orient="top", columns=3, symbolType="stroke", symbolSize=400),
        ),
        tooltip=[
            alt.Tooltip("part:N", title=part_title),
            alt.Tooltip("contestant:N"),
            alt.Tooltip("x:Q", title=x_title, format=",.4~g"),
            alt.Tooltip("y:Q", title=f"median {y_title}", format=",.4~g"),
        ],
    )
    return finished(alt.layer(area, line), theme, title)


def threshold_rule(theme: Theme) -> AltairChart:
    """One invisible rule within the data where there is no threshold: a scale needs some value."""
    return (
        data()
        .transform_aggregate(threshold="max(threshold)", highest="max(y)")
        .transform_calculate(level="isValid(datum.threshold) ? datum.threshold : datum.highest")
        .mark_rule(strokeDash=[2, 3], stroke=theme.muted)
        .encode(
            y=alt.Y("level:Q"),
            opacity=alt.condition("isValid(datum.threshold)", alt.value(1), alt.value(0)),
        )
    )


def draw_stacked(
    theme: Theme,
    title: str,
    parts: Sequence[str],
    palette: str,
    column: str,
    x_title: str,
    form: str,
    columns: int = 3,
    field: str = "contestant:N",
    lines: int = 1,
) -> AltairChart:
    """A bar per contestant, made of parts: rows with `part`, `part_order`, `text` and the column.

    `columns`: of the legend; three fit into the width of a telephone. `field` names the bars, in so many
    lines.
    """
    bars = (
        visible(data())
        .mark_bar(cornerRadius=1)
        .encode(
            x=alt.X(
                f"{column}:Q",
                title=x_title,
                stack="zero",
                scale=alt.Scale(nice=False),
                axis=alt.Axis(format=form, tickCount=5, grid=False),
            ),
            y=rows_axis(theme, field, lines),
            color=part_colour(theme, parts, palette, columns),
            order=alt.Order("part_order:Q"),
            tooltip=[
                alt.Tooltip(field, title="contestant"),
                alt.Tooltip("part:N"),
                alt.Tooltip("text:N", title=x_title),
            ],
        )
    )
    return finished(bars, theme, title, height=alt.Step(13 + 13 * lines))


def draw_against_axis(
    theme: Theme, title: str, x_title: str, y_title: str, spread: str = "quartiles"
) -> AltairChart:
    """A value against an axis of the study, contestants side by side; `spread` names what the bars show."""
    base = visible(data().transform_filter("isValid(datum.y)")).encode(
        x=alt.X(
            "x:O",
            title=x_title,
            axis=alt.Axis(labelAngle=0, labelOverlap=True),
            scale=alt.Scale(paddingInner=0.65, paddingOuter=0.4),
        ),
        xOffset=alt.XOffset("contestant:N"),
        color=colour(theme),
    )
    y = alt.Y("y:Q", title=y_title, scale=alt.Scale(zero=True), axis=plain_axis())
    line = base.mark_line(strokeWidth=1.5).encode(y=y, strokeDash=dash(theme))
    bars = dashed_ranges(base.mark_rule(strokeWidth=2, opacity=0.5)).encode(y="low:Q", y2="high:Q")
    point = hollow(base.mark_point(size=60, strokeWidth=2), theme).encode(
        y=y,
        shape=shape(theme),
        tooltip=[
            alt.Tooltip("contestant:N"),
            alt.Tooltip("x:O", title=x_title),
            alt.Tooltip("y:Q", title=y_title, format=",.4~g"),
            alt.Tooltip("low:Q", title=f"{spread}, from", format=",.4~g"),
            alt.Tooltip("high:Q", title="to", format=",.4~g"),
        ],
    )
    return finished(alt.layer(line, bars, point), theme, title)


def draw_side_by_side(theme: Theme, title: str, x_title: str, lines: int) -> AltairChart:
    """One bar per contestant and setting: median over seeds, quartiles as a line, the number beside it.

    A row is named in so many lines: the contestant, and the parts of its setting.
    """
    base = visible(data()).encode(y=rows_axis(theme, "label:N", lines))
    bar = base.mark_bar(strokeWidth=1.5, cornerRadiusEnd=2, height={"band": 0.62}).encode(
        x=alt.X("value:Q", title=x_title, axis=plain_axis(), scale=alt.Scale(zero=True)),
        color=colour(theme, legend=False),
        stroke=alt.Stroke(
            "contestant:N", scale=alt.Scale(domain=theme.names, range=list(theme.colours)), legend=None
        ),
        fillOpacity=alt.condition("datum.ranked", alt.value(0.75), alt.value(0.12)),
        tooltip=[alt.Tooltip("label:N", title="contestant"), alt.Tooltip("text:N", title=x_title)],
    )
    zero = data().mark_rule(stroke=theme.muted, aria=False).encode(x=alt.XDatum(0))
    spread = base.mark_rule(strokeWidth=1.5, color=theme.ink, opacity=0.6).encode(x="low:Q", x2="high:Q")
    number = value_column(base, theme)
    chart = alt.layer(bar, zero, spread, number)
    return finished(chart, theme, title, height=alt.Step(10 + 13 * lines), right=ASIDE)


def interval_row(estimate: Estimate, ranked: bool, metric: Column) -> dict[str, Any]:
    """What `draw_intervals` shows of an estimate, which must be finite."""
    bounded = estimate.high is not None and math.isfinite(estimate.high)
    low, high = (
        significant(end * metric.scale) if bounded and end is not None else None
        for end in (estimate.low, estimate.high)
    )
    words = [number(estimate.point * metric.scale), metric.unit, interval(estimate, metric.scale)]
    return {
        "ranked": ranked,
        "value": significant(estimate.point * metric.scale),
        "low": low,
        "high": high,
        "range": estimate.kind == RANGE,
        "text": " ".join(filter(None, words)),
    }


def draw_intervals(
    theme: Theme,
    title: str,
    x_title: str,
    axis: Any,
    scale: Any,
    at_least: float | None,
    legend: bool,
    field: str = "contestant:N",
    lines: int = 1,
) -> AltairChart:
    """A point and the interval of its estimate per contestant; hollow where it is not ranked.

    The axis reaches as far as `at_least`, whoever is hidden. `field` names the rows, in so many lines.
    """
    base = visible(data())
    y = rows_axis(theme, field, lines)
    interval = bounded(base).encode(
        x=alt.X("start:Q", title=x_title, scale=scale, axis=axis),
        x2="end:Q",
        y=y,
        color=colour(theme, legend=legend),
    )
    point = hollow(base.mark_point(size=110, strokeWidth=2), theme).encode(
        x=alt.X("value:Q", title=x_title),
        y=y,
        color=colour(theme, legend=legend),
        shape=shape(theme),
        tooltip=[alt.Tooltip(field, title="contestant"), alt.Tooltip("text:N", title=x_title)],
    )
    label = above(base, theme).encode(x="value:Q", y=y, text="text:N")
    layers = [interval, point, label, *([] if at_least is None else [reaching(at_least)])]
    return finished(alt.layer(*layers), theme, title, height=alt.Step(28 + 6 * lines))
