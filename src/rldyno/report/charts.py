"""One function per chart, each an Altair chart of the data set `rows`, for HTML and for pictures alike.

The data are left out: a report draws the same chart for many groups. `with_rows` puts them in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import polars as pl

from rldyno_rig import schema

Chart = Any

# Okabe and Ito's colour-blind-safe colours, then Tol's; (on white, on black).
FRAMEWORK_COLOURS = {
    "numpy": ("#59616b", "#aeb6c0"),
    "torch": ("#d55e00", "#f58a42"),
    "jax": ("#0072b2", "#56a8e6"),
    "tensorflow": ("#e69f00", "#f5c04f"),
    "mxnet": ("#009e73", "#3fc9a0"),
    "theano": ("#cc79a7", "#e6a3c8"),
    "pytensor": ("#882255", "#cf6f9f"),
    "chainer": ("#56b4e9", "#8fd0f5"),
    "paddle": ("#332288", "#9a8fe0"),
    "mlx": ("#999933", "#c8c864"),
    "tinygrad": ("#661100", "#c07a62"),
}
OTHER_COLOURS = (
    ("#44aa99", "#6fd0c0"),
    ("#aa4499", "#d58fca"),
    ("#ddcc77", "#e8dc9c"),
    ("#117733", "#4cb877"),
)
PART_COLOURS = (
    ("#009e73", "#2fbf96"),
    ("#56b4e9", "#7cc6ef"),
    ("#e69f00", "#f0b93c"),
    ("#cc79a7", "#dc97bd"),
    ("#0072b2", "#3f95d0"),
    ("#882255", "#b8557f"),
    ("#9aa0a6", "#7d848b"),
)
# A framework's modes, in order of appearance.
DASHES: tuple[tuple[int, ...], ...] = ((1, 0), (6, 3), (2, 2), (8, 3, 2, 3), (12, 4))
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross")

STARTUP_WORDS = {
    "interpreter": "interpreter",
    "import": "import",
    "build": "build",
    "first_call": "first calls",
}


@dataclass(frozen=True)
class Style:
    """How one contestant is drawn everywhere."""

    contestant: str
    colour: tuple[str, str]
    dash: tuple[int, ...]
    shape: str


@dataclass(frozen=True)
class Theme:
    """Colours as words of the medium: CSS variables in HTML, plain colours in a picture."""

    styles: tuple[Style, ...]
    colours: tuple[str, ...]
    """One per style."""
    parts: tuple[str, ...]
    ink: str
    muted: str
    grid: str
    width: int | str
    legend: bool


def styles_of(contestants: Sequence[str]) -> tuple[Style, ...]:
    """A colour per framework, a dash and a shape per mode."""
    frameworks = list(dict.fromkeys(name.partition(":")[0] for name in contestants))
    strangers = [name for name in frameworks if name not in FRAMEWORK_COLOURS]
    colours = FRAMEWORK_COLOURS | {
        name: OTHER_COLOURS[index % len(OTHER_COLOURS)] for index, name in enumerate(strangers)
    }
    modes: dict[str, int] = {}
    styles = []
    for contestant in dict.fromkeys(contestants):
        framework = contestant.partition(":")[0]
        index = modes.get(framework, 0)
        modes[framework] = index + 1
        styles.append(
            Style(contestant, colours[framework], DASHES[index % len(DASHES)], SHAPES[index % len(SHAPES)])
        )
    return tuple(styles)


def html_theme(styles: tuple[Style, ...]) -> Theme:
    """Colours are CSS variables, so that the page's scheme (light, dark, print) is the charts' scheme."""
    return Theme(
        styles=styles,
        colours=tuple(f"var(--series-{index})" for index in range(len(styles))),
        parts=tuple(f"var(--part-{index})" for index in range(len(PART_COLOURS))),
        ink="var(--ink)",
        muted="var(--muted)",
        grid="var(--line)",
        width="container",
        legend=False,
    )


def picture_theme(styles: tuple[Style, ...]) -> Theme:
    """For PNG, SVG and PDF on white."""
    return Theme(
        styles=styles,
        colours=tuple(style.colour[0] for style in styles),
        parts=tuple(light for light, _ in PART_COLOURS),
        ink="#1c2024",
        muted="#5b636b",
        grid="#e3e6e9",
        width=420,
        legend=True,
    )


def with_rows(chart: Chart, rows: pl.DataFrame) -> Chart:
    """The chart with its data: what a picture is made from."""
    return chart.properties(datasets={"rows": rows.to_dicts()})


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


def memory_against_time(theme: Theme) -> Chart:
    layers = band_layers(theme, "seconds since start", "resident memory, MB", zero=True)
    return finished(alt.layer(*layers), theme, "Memory against time")


def band_layers(theme: Theme, x_title: str, y_title: str, zero: bool) -> tuple[Chart, Chart]:
    base = shown(alt.Chart(alt.NamedData("rows")).transform_filter("isValid(datum.x)")).encode(
        x=alt.X(
            "x:Q",
            title=x_title,
            scale=alt.Scale(nice=False, zero=True),
            axis=alt.Axis(tickCount=5, format="~s" if "steps" in x_title else alt.Undefined),
        ),
        color=colour(theme),
    )
    area = base.mark_area(opacity=0.16, interpolate="linear").encode(
        y=alt.Y("low:Q", title=y_title, scale=alt.Scale(zero=zero)), y2="high:Q"
    )
    line = base.mark_line(strokeWidth=2, interpolate="linear").encode(
        y=alt.Y("y:Q", title=y_title),
        strokeDash=alt.StrokeDash(
            "contestant:N",
            scale=alt.Scale(domain=names(theme), range=[list(style.dash) for style in theme.styles]),
            legend=legend(theme),
        ),
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
    y = alt.Y(
        "contestant:N",
        title=None,
        sort=alt.EncodingSortField("order", op="min"),
        axis=alt.Axis(labelColor=theme.ink, labelFontSize=12, domain=False, ticks=False, labelPadding=10),
    )
    interval = (
        base.transform_filter("isValid(datum.low)")
        .mark_rule(strokeWidth=2, opacity=0.55)
        .encode(
            x=alt.X("low:Q", title=x_title, scale=alt.Scale(zero=True)), x2="high:Q", y=y, color=colour(theme)
        )
    )
    point = base.mark_point(size=110, strokeWidth=2, filled=False, opacity=1).encode(
        x=alt.X("value:Q", title=x_title),
        y=y,
        color=colour(theme),
        fill=alt.Fill(
            "contestant:N", scale=alt.Scale(domain=names(theme), range=list(theme.colours)), legend=None
        ),
        fillOpacity=alt.condition("datum.ranked", alt.value(1), alt.value(0)),
        shape=alt.Shape(
            "contestant:N",
            scale=alt.Scale(domain=names(theme), range=[style.shape for style in theme.styles]),
            legend=None,
        ),
        tooltip=[alt.Tooltip("contestant:N"), alt.Tooltip("text:N", title=x_title)],
    )
    label = base.mark_text(align="left", dx=11, fontSize=11, color=theme.muted, dy=-9).encode(
        x="value:Q", y=y, text="text:N"
    )
    return finished(alt.layer(interval, point, label), theme, title, height=alt.Step(34))


def phases(theme: Theme) -> Chart:
    return stacked(
        theme, schema.PHASES, "share", "share of training time", "%", "Where training time goes, by phase"
    )


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
            y=alt.Y(
                "contestant:N",
                title=None,
                sort=alt.EncodingSortField("order", op="min"),
                axis=alt.Axis(
                    labelColor=theme.ink, labelFontSize=12, domain=False, ticks=False, labelPadding=8
                ),
            ),
            color=alt.Color(
                "part:N",
                scale=alt.Scale(domain=list(parts), range=list(theme.parts[: len(parts)])),
                legend=alt.Legend(title=None, orient="top", columns=4, symbolType="square"),
            ),
            order=alt.Order("part_order:Q"),
            tooltip=[
                alt.Tooltip("contestant:N"),
                alt.Tooltip("part:N"),
                alt.Tooltip("seconds:Q", title="seconds", format=",.3~g"),
                alt.Tooltip("share:Q", title="share", format=".1%"),
            ],
        )
    )
    return finished(bars, theme, title, height=alt.Step(26))


def shown(chart: Chart) -> Chart:
    return chart.transform_filter("indexof(hidden, datum.contestant) < 0")


def colour(theme: Theme) -> Any:
    return alt.Color(
        "contestant:N", scale=alt.Scale(domain=names(theme), range=list(theme.colours)), legend=legend(theme)
    )


def legend(theme: Theme) -> Any:
    return alt.Legend(title=None, orient="top", columns=3, symbolType="stroke") if theme.legend else None


def names(theme: Theme) -> list[str]:
    return [style.contestant for style in theme.styles]


def finished(chart: Chart, theme: Theme, title: str, height: Any = 210) -> Chart:
    font = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', sans-serif"
    return (
        chart.add_params(alt.param(name="hidden", value=[]))
        .properties(width=theme.width, height=height, description=title)
        .properties(
            title=alt.TitleParams(
                title, anchor="start", fontSize=13, fontWeight=600, color=theme.ink, offset=8
            )
        )
        .properties(autosize=alt.AutoSizeParams(type="fit-x", contains="padding"))
        .configure(
            background="transparent", font=font, padding={"left": 4, "right": 14, "top": 4, "bottom": 4}
        )
        .configure_view(stroke=None)
        .configure_axis(
            labelColor=theme.muted,
            titleColor=theme.muted,
            titleFontWeight="normal",
            titleFontSize=12,
            labelFontSize=11,
            gridColor=theme.grid,
            domainColor=theme.grid,
            tickColor=theme.grid,
            titlePadding=8,
        )
        .configure_legend(labelColor=theme.ink, labelFontSize=12, symbolSize=90, labelLimit=200)
    )
