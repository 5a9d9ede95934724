"""Kinds of charts that sections share, each an Altair chart of the data set `rows`.

The data are left out: a report draws the same chart for many comparisons. A section that needs a kind of its
own builds it in its module, from the parts at the end of this one.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from rldyno.report.libraries import alt
from rldyno.report.section import Chart
from rldyno.report.series import Band, Curve
from rldyno.report.theme import AltairChart, Theme, colour, dash, finished, names, shape, visible


def band_chart(curve: Curve, bands: Sequence[Band], threshold: float | None = None) -> Chart:
    draw = partial(draw_bands, x_title=curve.x_title, y_title=curve.y_title, zero=curve.zero)
    return Chart(curve.id, curve.title, curve.caption, draw, bands=bands, threshold=threshold)


def draw_bands(theme: Theme, title: str, x_title: str, y_title: str, zero: bool) -> AltairChart:
    """Medians as lines, quartiles as bands; the threshold as a dotted line: a row with nothing else."""
    base = visible(data().transform_filter("isValid(datum.x)")).encode(
        x=alt.X("x:Q", title=x_title, scale=alt.Scale(nice=False, zero=True), axis=plain_axis(tick_count=5)),
        color=colour(theme),
    )
    area = base.mark_area(opacity=0.16, interpolate="linear").encode(
        y=alt.Y("low:Q", title=y_title, scale=alt.Scale(zero=zero)), y2="high:Q"
    )
    line = base.mark_line(strokeWidth=2, interpolate="linear").encode(
        y=alt.Y("y:Q", title=y_title),
        strokeDash=dash(theme),
        tooltip=[
            alt.Tooltip("contestant:N"),
            alt.Tooltip("x:Q", title=x_title, format=",.4~g"),
            alt.Tooltip("y:Q", title=f"median {y_title}", format=",.4~g"),
        ],
    )
    rule = (
        data()
        .transform_filter("isValid(datum.threshold)")
        .mark_rule(strokeDash=[2, 3], stroke=theme.muted)
        .encode(y=alt.Y("threshold:Q"))
    )
    return finished(alt.layer(area, line, *([] if zero else [rule])), theme, title)


def draw_stacked(
    theme: Theme, title: str, parts: Sequence[str], column: str, x_title: str, form: str
) -> AltairChart:
    """A bar per contestant, made of parts: rows with `part`, `part_order`, `text` and the column."""
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
            y=rows_axis(theme, "contestant:N"),
            color=alt.Color(
                "part:N",
                scale=alt.Scale(domain=list(parts), range=list(theme.parts[: len(parts)])),
                legend=alt.Legend(
                    title=None, orient="top", columns=3 if len(parts) == 5 else 4, symbolType="square"
                ),
            ),
            order=alt.Order("part_order:Q"),
            tooltip=[
                alt.Tooltip("contestant:N"),
                alt.Tooltip("part:N"),
                alt.Tooltip("text:N", title=x_title),
            ],
        )
    )
    return finished(bars, theme, title, height=alt.Step(26))


def draw_against_axis(theme: Theme, title: str, x_title: str, y_title: str) -> AltairChart:
    """A value against an axis of the study: median over seeds, quartiles as bars."""
    base = visible(data()).encode(
        x=alt.X("x:O", title=x_title, axis=alt.Axis(labelAngle=0), scale=alt.Scale(padding=0.3)),
        color=colour(theme),
    )
    y = alt.Y("y:Q", title=y_title, scale=alt.Scale(zero=True), axis=plain_axis())
    line = base.mark_line(strokeWidth=1.5).encode(y=y, strokeDash=dash(theme))
    spread = base.mark_rule(strokeWidth=2, opacity=0.5).encode(y="low:Q", y2="high:Q")
    point = base.mark_point(size=60, filled=True, opacity=1).encode(
        y=y,
        shape=shape(theme),
        tooltip=[
            alt.Tooltip("contestant:N"),
            alt.Tooltip("x:O", title=x_title),
            alt.Tooltip("y:Q", title=f"median, {y_title}", format=",.4~g"),
        ],
    )
    return finished(alt.layer(line, spread, point), theme, title)


def draw_side_by_side(theme: Theme, title: str, x_title: str, settings: bool) -> AltairChart:
    """One bar per contestant and setting: median over seeds, quartiles as a line, the number beside it.

    With `settings` a row is named in two lines, the contestant and its setting.
    """
    base = visible(data()).encode(y=rows_axis(theme, "label:N", settings))
    bar = base.mark_bar(opacity=0.75, cornerRadiusEnd=2, height={"band": 0.62}).encode(
        x=alt.X("value:Q", title=x_title, axis=plain_axis(), scale=alt.Scale(zero=True)),
        color=colour(theme, legend=False),
        tooltip=[alt.Tooltip("label:N", title="contestant"), alt.Tooltip("text:N", title=x_title)],
    )
    spread = base.mark_rule(strokeWidth=1.5, color=theme.ink, opacity=0.6).encode(x="low:Q", x2="high:Q")
    text = base.mark_text(align="left", dx=6, fontSize=11, color=theme.muted).encode(
        x="high:Q", text="text:N"
    )
    return finished(alt.layer(bar, spread, text), theme, title, height=alt.Step(34 if settings else 24))


def draw_intervals(
    theme: Theme, title: str, x_title: str, axis: Any, scale: Any, filled: str, legend: bool
) -> AltairChart:
    """A point and its 95 % interval per contestant; hollow where the expression `filled` is false."""
    base = visible(data())
    y = rows_axis(theme, "contestant:N")
    interval = bounded(base).encode(
        x=alt.X("start:Q", title=x_title, scale=scale, axis=axis),
        x2="end:Q",
        y=y,
        color=colour(theme, legend=legend),
    )
    point = base.mark_point(size=110, strokeWidth=2, filled=False, opacity=1).encode(
        x=alt.X("value:Q", title=x_title),
        y=y,
        color=colour(theme, legend=legend),
        fill=alt.Fill(
            "contestant:N", scale=alt.Scale(domain=names(theme), range=list(theme.colours)), legend=None
        ),
        fillOpacity=alt.condition(filled, alt.value(1), alt.value(0)),
        shape=shape(theme),
        tooltip=[alt.Tooltip("contestant:N"), alt.Tooltip("text:N", title=x_title)],
    )
    label = base.mark_text(align="left", dx=11, dy=-9, fontSize=11, color=theme.muted).encode(
        x="value:Q", y=y, text="text:N"
    )
    return finished(alt.layer(interval, point, label), theme, title, height=alt.Step(34))


# --- parts of charts ----------------------------------------------------------------------------------------


def data() -> AltairChart:
    """A chart of the data set that `Chart.altair`, or the page's script, gives it."""
    return alt.Chart(alt.NamedData("rows"))


def bounded(chart: AltairChart) -> AltairChart:
    """Rules from `start` to `end`, the bounds of an interval; of no length where there is none."""
    ends = {
        end: f"isValid(datum.{column}) ? datum.{column} : datum.value"
        for end, column in (("start", "low"), ("end", "high"))
    }
    return chart.transform_calculate(**ends).mark_rule(strokeWidth=2, opacity=0.55)


def rows_axis(theme: Theme, field: str, two_lines: bool = False) -> Any:
    comma = "indexof(datum.label, ', ')"
    return alt.Y(
        field,
        title=None,
        sort=alt.EncodingSortField("order", op="min"),
        axis=alt.Axis(
            labelColor=theme.ink,
            labelFontSize=12,
            # `torch:eager, 2 cores, 1 worker` in two lines.
            labelExpr=f"{comma} < 0 ? datum.label : "
            f"[slice(datum.label, 0, {comma}), slice(datum.label, {comma} + 2)]",
            domain=False,
            ticks=False,
            labelPadding=8,
            labelOffset=-7 if two_lines else 0,
        ),
    )


def plain_axis(tick_count: int = 4) -> Any:
    """1.2k above a thousand, 0.05 and not 50m below one."""
    expression = "format(datum.value, abs(datum.value) < 1000 ? '.3~g' : '~s')"
    return alt.Axis(tickCount=tick_count, labelExpr=expression)


def ratio_axis() -> Any:
    """1×, 2×, 5×, 10× …"""
    values = [digit * 10.0**power for power in range(6) for digit in (1, 2, 5)]
    return alt.Axis(values=values, labelExpr="format(datum.value, '~s') + '×'", labelOverlap=True)


def powers_axis() -> Any:
    """A line for every power of ten, and none between them."""
    tens = [10.0**power for power in range(-3, 10)]
    return alt.Axis(values=tens, labelExpr="format(datum.value, datum.value < 1000 ? '.3~g' : '~s')")
