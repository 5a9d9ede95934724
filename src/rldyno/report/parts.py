"""Parts that charts are built from: axes, labels that stay inside, marks of what is not ranked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rldyno.report.libraries import alt
from rldyno.report.theme import AltairChart, Theme

# Pixels to the right of a chart for a column of numbers.
ASIDE = 62
# Width of a letter of 11 pixels, at most on average.
LETTER = 6.2
RANKED = "datum.ranked !== false"


def data() -> AltairChart:
    """A chart of the data set that `Chart.altair`, or the page's script, gives it."""
    return alt.Chart(alt.NamedData("rows"))


def bounded(chart: AltairChart) -> AltairChart:
    """Rules from `start` to `end`, the bounds of an interval; of no length where there is none.

    Dashed where they are only the `range` of the runs.
    """
    ends = {
        end: f"isValid(datum.{column}) ? datum.{column} : datum.value"
        for end, column in (("start", "low"), ("end", "high"))
    }
    return dashed_ranges(chart.transform_calculate(**ends).mark_rule(strokeWidth=2, opacity=0.55))


def dashed_ranges(rules: AltairChart) -> AltairChart:
    return rules.encode(
        strokeDash=alt.condition("datum.range === true", alt.value([3, 3]), alt.value([1, 0]))
    )


def hollow(points: AltairChart, theme: Theme) -> AltairChart:
    """Points in the colours of their contestants, hollow where one is not ranked."""
    return points.encode(
        fill=alt.Fill(
            "contestant:N", scale=alt.Scale(domain=theme.names, range=list(theme.colours)), legend=None
        ),
        fillOpacity=alt.condition(RANKED, alt.value(1), alt.value(0)),
        opacity=alt.value(1),
    )


def above(chart: AltairChart, theme: Theme) -> AltairChart:
    """Text above a point, beginning beside it; as far to the left as it must to end inside the chart."""
    room = f"width + 10 - scale('x', datum.value) - {LETTER} * length(datum.text)"
    return chart.mark_text(
        fontSize=11, color=theme.muted, align="left", dx=alt.ExprRef(f"min(8, {room})"), dy=-13
    )


def value_column(chart: AltairChart, theme: Theme) -> AltairChart:
    """`text` of each row, right of the chart."""
    return chart.mark_text(align="left", dx=8, fontSize=11, color=theme.muted).encode(
        x=alt.value("width"), text="text:N"
    )


def reaching(value: float) -> AltairChart:
    """Nothing to see: it keeps a value inside the x axis when the rows that reach it are hidden."""
    return data().mark_point(opacity=0, aria=False, tooltip=None).encode(x=alt.XDatum(value))


def note(theme: Theme) -> AltairChart:
    """The text of rows with a `note`, in the lower right corner, where curves that rise leave room.

    `line` counts from the bottom.
    """
    return (
        data()
        .transform_filter("isValid(datum.note)")
        .mark_text(
            align="right",
            baseline="bottom",
            dx=-4,
            dy=alt.ExprRef("-4 - 13 * datum.line"),
            fontSize=11,
            fontStyle="italic",
            color=theme.muted,
        )
        .encode(x=alt.value("width"), y=alt.value("height"), text="note:N")
    )


def part_colour(theme: Theme, parts: Sequence[str], palette: str, columns: int) -> Any:
    """Parts have colours that no contestant has."""
    return alt.Color(
        "part:N",
        scale=alt.Scale(domain=list(parts), range=list(theme.palettes[palette][: len(parts)])),
        legend=alt.Legend(title=None, orient="top", columns=columns, symbolType="square"),
    )


def rows_axis(theme: Theme, field: str, lines: int = 1) -> Any:
    """Named by contestant and setting: `torch:eager, 2 cores, 1 worker` in three lines."""
    return alt.Y(
        field,
        title=None,
        sort=alt.EncodingSortField("order", op="min"),
        axis=alt.Axis(
            labelColor=theme.ink,
            labelFontSize=12,
            labelExpr="split(datum.label, ', ')" if lines > 1 else "datum.label",
            labelLimit=260,
            domain=False,
            ticks=False,
            labelPadding=8,
            labelOffset=-7 * (lines - 1),
        ),
    )


def plain_axis(tick_count: int = 4) -> Any:
    """1.2k above a thousand, 0.05 and not 50m below one."""
    expression = "format(datum.value, abs(datum.value) < 1000 ? '.3~g' : '~s')"
    return alt.Axis(tickCount=tick_count, labelExpr=expression, labelOverlap=True)


def ratio_axis() -> Any:
    """1×, 2×, 5×, 10× …"""
    values = [digit * 10.0**power for power in range(6) for digit in (1, 2, 5)]
    return alt.Axis(values=values, labelExpr="format(datum.value, '~s') + '×'", labelOverlap=True)


def powers_axis() -> Any:
    """A line for every power of ten, and none between them."""
    tens = [10.0**power for power in range(-3, 10)]
    return alt.Axis(values=tens, labelExpr="format(datum.value, datum.value < 1000 ? '.3~g' : '~s')")
