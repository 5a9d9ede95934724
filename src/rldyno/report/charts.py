"""Kinds of charts that sections share, each an Altair chart of the data set `rows`.

The data are left out: a report draws the same chart for many comparisons. A section that needs a kind of its
own builds it in its module, from `report/parts.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

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
from rldyno.report.section import Chart
from rldyno.report.series import Band, Curve
from rldyno.report.theme import AltairChart, Theme, colour, dash, finished, shape, visible


def band_chart(curve: Curve, bands: Sequence[Band], threshold: float | None = None) -> Chart:
    draw = partial(draw_bands, x_title=curve.x_title, y_title=curve.y_title, zero=curve.zero)
    return Chart(curve.id, curve.title, curve.caption, draw, bands=bands, threshold=threshold)


def draw_bands(theme: Theme, title: str, x_title: str, y_title: str, zero: bool) -> AltairChart:
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
    layers = [area, line, note(theme)]
    return finished(alt.layer(*layers, *([] if zero else [threshold_rule(theme)])), theme, title)


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


def draw_intervals(
    theme: Theme, title: str, x_title: str, axis: Any, scale: Any, at_least: float | None, legend: bool
) -> AltairChart:
    """A point and the interval of its estimate per contestant; hollow where it is not ranked.

    The axis reaches as far as `at_least`, whoever is hidden.
    """
    base = visible(data())
    y = rows_axis(theme, "contestant:N")
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
        tooltip=[alt.Tooltip("contestant:N"), alt.Tooltip("text:N", title=x_title)],
    )
    label = above(base, theme).encode(x="value:Q", y=y, text="text:N")
    layers = [interval, point, label, *([] if at_least is None else [reaching(at_least)])]
    return finished(alt.layer(*layers), theme, title, height=alt.Step(34))
