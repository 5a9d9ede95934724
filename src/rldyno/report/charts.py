"""One function per chart, each an Altair chart of the data set `rows`, for HTML and for pictures alike.

The data are left out: a report draws the same chart for many groups. `with_rows` puts them in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from rldyno.report.theme import Chart, Theme, colour, dash, finished, names, shape, shown
from rldyno_rig import schema

STARTUP_WORDS = {
    "interpreter": "interpreter",
    "import": "import",
    "build": "build",
    "first_call": "first call",
    "warm": "warm-up",
}


def with_rows(chart: Chart, rows: Sequence[Mapping[str, Any]]) -> Chart:
    """The chart with its data: what a picture is made from."""
    return chart.properties(datasets={"rows": list(rows)})


def learning_against_steps(theme: Theme) -> Chart:
    return learning(theme, "environment steps", "Mean return against environment steps")


def learning_against_episodes(theme: Theme) -> Chart:
    return learning(theme, "episodes", "Mean return against episodes")


def learning_against_time(theme: Theme) -> Chart:
    return learning(theme, "seconds since start", "Mean return against time, start-up included")


def learning(theme: Theme, x_title: str, title: str) -> Chart:
    """Bands, and the threshold as a dashed line: a row with `threshold` set and nothing else."""
    rule = (
        alt.Chart(alt.NamedData("rows"))
        .transform_filter("isValid(datum.threshold)")
        .mark_rule(strokeDash=[2, 3], stroke=theme.muted)
        .encode(y=alt.Y("threshold:Q"))
    )
    return finished(alt.layer(*band_layers(theme, x_title, "mean return", zero=False), rule), theme, title)


def cpu_against_time(theme: Theme) -> Chart:
    layers = band_layers(theme, "seconds since start", "CPU, % of one core", zero=True)
    return finished(alt.layer(*layers), theme, "CPU use against time")


def gpu_against_time(theme: Theme) -> Chart:
    layers = band_layers(theme, "seconds since start", "GPU, %", zero=True)
    return finished(alt.layer(*layers), theme, "GPU use against time")


def gpu_memory_against_time(theme: Theme) -> Chart:
    layers = band_layers(theme, "seconds since start", "GPU memory, MB", zero=True)
    return finished(alt.layer(*layers), theme, "GPU memory against time")


def power_against_time(theme: Theme) -> Chart:
    layers = band_layers(theme, "seconds since start", "power, W", zero=True)
    return finished(alt.layer(*layers), theme, "Power of the GPU against time")


def memory_against_time(theme: Theme) -> Chart:
    layers = band_layers(theme, "seconds since start", "resident memory, MB", zero=True)
    return finished(alt.layer(*layers), theme, "Memory against time")


def band_layers(theme: Theme, x_title: str, y_title: str, zero: bool) -> tuple[Chart, Chart]:
    base = shown(alt.Chart(alt.NamedData("rows")).transform_filter("isValid(datum.x)")).encode(
        x=alt.X(
            "x:Q",
            title=x_title,
            scale=alt.Scale(nice=False, zero=True),
            axis=plain_axis(tick_count=5),
        ),
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
    return area, line


def answer(theme: Theme, title: str, x_title: str) -> Chart:
    """Point estimate and 95 % interval per contestant; hollow when it is not ranked."""
    base = shown(alt.Chart(alt.NamedData("rows")))
    y = rows_axis(theme, "contestant:N")
    interval = bounded(base).encode(
        x=alt.X("start:Q", title=x_title, scale=alt.Scale(zero=True), axis=plain_axis(tick_count=6)),
        x2="end:Q",
        y=y,
        color=colour(theme),
    )
    point = base.mark_point(size=110, strokeWidth=2, filled=False, opacity=1).encode(
        x=alt.X("value:Q", title=x_title),
        y=y,
        color=colour(theme),
        fill=alt.Fill(
            "contestant:N", scale=alt.Scale(domain=names(theme), range=list(theme.colours)), legend=None
        ),
        fillOpacity=alt.condition("datum.ranked", alt.value(1), alt.value(0)),
        shape=shape(theme),
        tooltip=[alt.Tooltip("contestant:N"), alt.Tooltip("text:N", title=x_title)],
    )
    label = base.mark_text(align="left", dx=11, fontSize=11, color=theme.muted, dy=-9).encode(
        x="value:Q", y=y, text="text:N"
    )
    return finished(alt.layer(interval, point, label), theme, title, height=alt.Step(34))


def bounded(chart: Chart) -> Chart:
    """Rules from `start` to `end`, the bounds of an interval; of no length where there is none."""
    ends = {
        end: f"isValid(datum.{column}) ? datum.{column} : datum.value"
        for end, column in (("start", "low"), ("end", "high"))
    }
    return chart.transform_calculate(**ends).mark_rule(strokeWidth=2, opacity=0.55)


def overview(theme: Theme) -> Chart:
    """The whole study in one picture: every comparison a tick, their geometric mean a point."""
    base = shown(alt.Chart(alt.NamedData("rows")))
    y = rows_axis(theme, "contestant:N")
    x = alt.X(
        "value:Q",
        title="times worse than the best of its comparison",
        scale=alt.Scale(type="log", domainMin=1, nice=False),
        axis=factors(),
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
    label = mean.mark_text(align="left", dx=6, dy=-13, fontSize=11, color=theme.muted).encode(
        x=x, y=y, text="text:N"
    )
    return finished(
        alt.layer(each, point, label), theme, "All comparisons in one picture", height=alt.Step(34)
    )


def distance(theme: Theme) -> Chart:
    """An update as a multiple of the least time that the machine allows for it, with its 95 % interval."""
    base = shown(alt.Chart(alt.NamedData("rows"))).encode(
        y=rows_axis(theme, "contestant:N"), color=colour(theme, legend=False)
    )
    x_title = "one update, times its floor"
    x = alt.X("value:Q", title=x_title, scale=alt.Scale(type="log", domainMin=1), axis=factors())
    interval = bounded(base).encode(x="start:Q", x2="end:Q")
    point = base.mark_point(size=110, filled=True, opacity=1).encode(
        x=x,
        shape=shape(theme),
        tooltip=[alt.Tooltip("contestant:N"), alt.Tooltip("text:N", title=x_title)],
    )
    label = (
        shown(alt.Chart(alt.NamedData("rows")))
        .mark_text(align="left", dx=11, dy=-9, fontSize=11, color=theme.muted)
        .encode(x="value:Q", y=rows_axis(theme, "contestant:N"), text="text:N")
    )
    return finished(alt.layer(interval, point, label), theme, "Distance from the limit", height=alt.Step(34))


def phases(theme: Theme) -> Chart:
    return stacked(
        theme, schema.PHASES, "share", "share of training time", "%", "Where training time goes, by phase"
    )


def phase_against_steps(theme: Theme, phase: str) -> Chart:
    layers = band_layers(theme, "environment steps", "µs per step", zero=True)
    return finished(alt.layer(*layers), theme, f"Time in {phase}")


def memory_split(theme: Theme, stages: Sequence[str]) -> Chart:
    return stacked(theme, stages, "mb", "resident memory, MB", "~s", "Memory, by the stage that takes it")


def startup(theme: Theme) -> Chart:
    return stacked(
        theme,
        tuple(STARTUP_WORDS.values()),
        "seconds",
        "seconds before the first step",
        "~g",
        "Start-up, by part",
    )


def stacked(theme: Theme, parts: Sequence[str], column: str, x_title: str, form: str, title: str) -> Chart:
    bars = (
        shown(alt.Chart(alt.NamedData("rows")))
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


def scaling(theme: Theme, title: str, x_title: str, y_title: str) -> Chart:
    """A figure against the values of an axis of the study: median over seeds, quartiles as bars."""
    base = shown(alt.Chart(alt.NamedData("rows"))).encode(
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


def side_by_side(theme: Theme, title: str, x_title: str, settings: bool) -> Chart:
    """One bar per contestant and setting: median over seeds, quartiles as a line, the figure beside it.

    With `settings` a row is named in two lines, the contestant and its setting.
    """
    base = shown(alt.Chart(alt.NamedData("rows"))).encode(y=rows_axis(theme, "label:N", settings))
    bar = base.mark_bar(opacity=0.75, cornerRadiusEnd=2, height={"band": 0.62}).encode(
        x=alt.X("value:Q", title=x_title, axis=plain_axis(), scale=alt.Scale(zero=True)),
        color=alt.Color(
            "contestant:N", scale=alt.Scale(domain=names(theme), range=list(theme.colours)), legend=None
        ),
        tooltip=[alt.Tooltip("label:N", title="contestant"), alt.Tooltip("text:N", title=x_title)],
    )
    spread = base.mark_rule(strokeWidth=1.5, color=theme.ink, opacity=0.6).encode(x="low:Q", x2="high:Q")
    text = base.mark_text(align="left", dx=6, fontSize=11, color=theme.muted).encode(
        x="high:Q", text="text:N"
    )
    return finished(alt.layer(bar, spread, text), theme, title, height=alt.Step(34 if settings else 24))


def break_even(theme: Theme) -> Chart:
    """Seconds from the start of the process until N steps are done, start-up + N / speed."""
    base = shown(alt.Chart(alt.NamedData("rows"))).encode(color=colour(theme))
    line = base.mark_line(strokeWidth=2).encode(
        x=alt.X("x:Q", title="environment steps", scale=alt.Scale(type="log", nice=False), axis=powers()),
        y=alt.Y("y:Q", title="seconds since start", scale=alt.Scale(type="log"), axis=powers()),
        strokeDash=dash(theme),
        tooltip=[
            alt.Tooltip("contestant:N"),
            alt.Tooltip("x:Q", title="environment steps", format=",.3~s"),
            alt.Tooltip("y:Q", title="seconds since start", format=",.4~g"),
        ],
    )
    return finished(line, theme, "Time a run of so many steps takes", height=260)


def noise(theme: Theme) -> Chart:
    points = (
        shown(alt.Chart(alt.NamedData("rows")))
        .mark_point(size=28, filled=True, opacity=0.7)
        .encode(
            x=alt.X("x:Q", title="trial, in the order they ran", axis=alt.Axis(tickCount=5, tickMinStep=1)),
            y=alt.Y("y:Q", title="noise score", scale=alt.Scale(zero=True)),
            color=colour(theme),
            shape=shape(theme),
            tooltip=[
                alt.Tooltip("contestant:N"),
                alt.Tooltip("trial:N"),
                alt.Tooltip("y:Q", title="noise score", format=".3f"),
            ],
        )
    )
    return finished(points, theme, "Noise of every trial")


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


def factors() -> Any:
    """1×, 2×, 5×, 10× …"""
    values = [digit * 10.0**power for power in range(6) for digit in (1, 2, 5)]
    return alt.Axis(values=values, labelExpr="format(datum.value, '~s') + '×'", labelOverlap=True)


def powers() -> Any:
    """A line for every power of ten, and none between them."""
    tens = [10.0**power for power in range(-3, 10)]
    return alt.Axis(values=tens, labelExpr="format(datum.value, datum.value < 1000 ? '.3~g' : '~s')")
