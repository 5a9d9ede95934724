"""How every chart looks: contestants' colours, dashes and shapes, in HTML and in pictures."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rldyno.errors import Problem
from rldyno.report.libraries import alt
from rldyno.toolchains.catalogue import read_catalogue
from rldyno_rig.contestant import Contestant

AltairChart = Any

Colour = tuple[str, str]
"""(on white, on black)."""
# Okabe and Ito's colour-blind-safe colours and Tol's, for frameworks whose toolchain names none.
OTHER_COLOURS: tuple[Colour, ...] = (
    ("#44aa99", "#6fd0c0"),
    ("#aa4499", "#d58fca"),
    ("#ddcc77", "#e8dc9c"),
    ("#117733", "#4cb877"),
    ("#0f4c5c", "#5fb3c4"),
    ("#999933", "#c8c864"),
    ("#661100", "#c07a62"),
)
# What is part of a contestant's time or memory has colours of its own: a colour never means two things.
# Phases are earth colours; the stages of a run, which have an order, one hue that darkens.
PALETTES: dict[str, tuple[Colour, ...]] = {
    "phases": (
        ("#d9c7a0", "#d6c59c"),
        ("#a98a63", "#b3936a"),
        ("#8b9162", "#9aa06f"),
        ("#d3a9a3", "#c99f99"),
        ("#5f4a37", "#866a50"),
        ("#b9b2a6", "#948d82"),
        ("#e6e2da", "#55514b"),
        ("#7d2f3a", "#b8606c"),
        ("#c9d3c4", "#6f7d6a"),
    ),
    "stages": (
        ("#ddd5ec", "#dcd2f0"),
        ("#bcaedb", "#bfaee2"),
        ("#9883c4", "#9d86cc"),
        ("#7159a3", "#7f68b3"),
        ("#493672", "#5d4a8c"),
    ),
}
PART_COLOURS: tuple[Colour, ...] = tuple(colour for palette in PALETTES.values() for colour in palette)
# A framework's modes, in order of appearance.
DASHES: tuple[tuple[int, ...], ...] = ((1, 0), (6, 3), (2, 2), (8, 3, 2, 3), (12, 4))
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross")


@dataclass(frozen=True)
class Style:
    """How one contestant is drawn everywhere."""

    contestant: str
    colour: Colour
    dash: tuple[int, ...]
    shape: str


@dataclass(frozen=True)
class Theme:
    """Colours as words of the medium: CSS variables in HTML, plain colours in a picture."""

    styles: tuple[Style, ...]
    colours: tuple[str, ...]
    """One per style."""
    palettes: Mapping[str, tuple[str, ...]]
    """Colours of parts."""
    background: str
    ink: str
    muted: str
    grid: str
    width: int | str
    legend: bool
    font: str
    left: int
    """Pixels left of a chart."""

    @property
    def names(self) -> list[str]:
        return [style.contestant for style in self.styles]

    def with_only(self, contestants: Container[object]) -> Theme:
        """With some of the contestants, which keep their colours."""
        kept = [
            pair for pair in zip(self.styles, self.colours, strict=True) if pair[0].contestant in contestants
        ]
        return replace(self, styles=tuple(style for style, _ in kept), colours=tuple(c for _, c in kept))


def styles_of(contestants: Sequence[str]) -> tuple[Style, ...]:
    """A colour per framework, a dash and a shape per mode."""
    parsed = {name: Contestant.parse(name) for name in contestants}
    # By name, the plain mode of a framework first: a contestant looks the same whichever ran first.
    ordered = sorted(
        parsed.items(), key=lambda pair: (pair[1].framework, pair[1].mode != "eager", pair[1].mode)
    )
    colours = framework_colours(list(dict.fromkeys(item.framework for _, item in ordered)))
    modes: dict[str, int] = {}
    styles = []
    for name, item in ordered:
        index = modes.get(item.framework, 0)
        modes[item.framework] = index + 1
        styles.append(
            Style(name, colours[item.framework], DASHES[index % len(DASHES)], SHAPES[index % len(SHAPES)])
        )
    return tuple(styles)


def framework_colours(frameworks: Sequence[str]) -> dict[str, Colour]:
    """The colour that a framework's toolchain names; for the others one that follows from the name.

    Of two names that ask for the same colour, the later one takes the next that is free.
    """
    named = toolchain_colours()
    found = {name: named[name] for name in frameworks if name in named}
    for name in frameworks:
        if name not in found:
            first = zlib.crc32(name.encode()) % len(OTHER_COLOURS)
            order = OTHER_COLOURS[first:] + OTHER_COLOURS[:first]
            found[name] = next((colour for colour in order if colour not in found.values()), order[0])
    return found


def toolchain_colours() -> dict[str, Colour]:
    """A broken toolchain of the user's changes colours, and does not stop a report."""
    try:
        return {name: found.colour for name, found in read_catalogue().items() if found.colour is not None}
    except Problem:
        return {}


def html_theme(styles: tuple[Style, ...]) -> Theme:
    """Colours are CSS variables, so that the page's scheme (light, dark, print) is the charts' scheme."""
    return Theme(
        styles=styles,
        colours=tuple(f"var(--series-{index})" for index in range(len(styles))),
        palettes=split_palettes([f"var(--part-{index})" for index in range(len(PART_COLOURS))]),
        background="transparent",
        ink="var(--ink)",
        muted="var(--muted)",
        grid="var(--line)",
        width="container",
        legend=False,
        font="system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', sans-serif",
        left=4,
    )


def picture_theme(styles: tuple[Style, ...]) -> Theme:
    """For PNG, SVG and PDF on white."""
    return Theme(
        styles=styles,
        colours=tuple(style.colour[0] for style in styles),
        palettes=split_palettes([light for light, _ in PART_COLOURS]),
        background="#ffffff",
        ink="#1c2024",
        muted="#5b636b",
        grid="#e3e6e9",
        width=440,
        legend=True,
        # All of one width: a picture is laid out here and shown elsewhere.
        font="Helvetica, Arial, 'Liberation Sans', sans-serif",
        left=20,
    )


def split_palettes(colours: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Colours in the order of PART_COLOURS, by palette."""
    rest = iter(colours)
    return {name: tuple(itertools.islice(rest, len(palette))) for name, palette in PALETTES.items()}


def visible(chart: AltairChart) -> AltairChart:
    return chart.transform_filter("indexof(hidden, datum.contestant) < 0")


def colour(theme: Theme, *, legend: bool = True) -> Any:
    """Without a legend where the rows of the chart carry the names."""
    return alt.Color(
        "contestant:N",
        scale=alt.Scale(domain=theme.names, range=list(theme.colours)),
        legend=legend_of(theme) if legend else None,
    )


def dash(theme: Theme) -> Any:
    dashes = [list(style.dash) for style in theme.styles]
    return alt.StrokeDash(
        "contestant:N", scale=alt.Scale(domain=theme.names, range=dashes), legend=legend_of(theme)
    )


def shape(theme: Theme) -> Any:
    shapes = [style.shape for style in theme.styles]
    return alt.Shape("contestant:N", scale=alt.Scale(domain=theme.names, range=shapes), legend=None)


def legend_of(theme: Theme) -> Any:
    return alt.Legend(title=None, orient="top", columns=3, symbolType="stroke") if theme.legend else None


def finished(chart: AltairChart, theme: Theme, title: str, height: Any = 210, right: int = 14) -> AltairChart:
    """In one call: Altair copies the whole chart at each. `right`: pixels beside the chart."""
    return chart.properties(
        params=[alt.param(name="hidden", value=[]).param],
        width=theme.width,
        height=height,
        description=title,
        title=alt.TitleParams(
            title,
            anchor="start",
            fontSize=13,
            fontWeight=600,
            color=theme.ink,
            subtitleColor=theme.muted,
            subtitleFontSize=12,
            offset=8,
        ),
        padding={"left": theme.left, "right": right, "top": 4, "bottom": 4},
        autosize=alt.AutoSizeParams(type="fit-x", contains="padding"),
        config=config(theme),
    )


def config(theme: Theme) -> dict[str, Any]:
    return {
        "background": theme.background,
        "font": theme.font,
        "view": {"stroke": None},
        "axis": {
            "labelColor": theme.muted,
            "titleColor": theme.muted,
            "titleFontWeight": "normal",
            "titleFontSize": 12,
            "labelFontSize": 11,
            "gridColor": theme.grid,
            "domainColor": theme.grid,
            "tickColor": theme.grid,
            "titlePadding": 8,
        },
        # A band's legend would be as pale as the band.
        "legend": {
            "labelColor": theme.ink,
            "labelFontSize": 12,
            "symbolSize": 90,
            "symbolOpacity": 1,
            "labelLimit": 200,
        },
    }
