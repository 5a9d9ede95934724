"""What a report is made of: sections, panels of charts, and charts, each of them a value."""

from __future__ import annotations

import itertools
import math
import re
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rldyno.report.series import Band, Curve, RunValues, SharedValues, coincident
from rldyno.report.theme import AltairChart, Theme
from rldyno.stats.estimates import RANGE, Estimate
from rldyno.text.tables import Table

if TYPE_CHECKING:
    from rldyno.report.material import Material

ChartRow = Mapping[str, Any]
LINE_WIDTH = 2.0
# As many fit into a picture.
SUBTITLE_LETTERS = 62


@dataclass(frozen=True)
class Chart:
    """One chart of one panel, with its data: rows, or bands that become rows when they are drawn.

    Charts with the same id differ in nothing but their data: the page holds the drawing instructions once.
    """

    id: str
    """In file names and in the page; no other section uses it."""
    title: str
    caption: str
    draw: Callable[[Theme, str], AltairChart]
    """(theme, title) → an Altair chart of the data set `rows`, without the data."""
    rows: Sequence[ChartRow] = ()
    bands: Sequence[Band] = ()
    threshold: float | None = None
    """Drawn across the bands."""
    beside: Sequence[ChartRow] = ()
    """Rows that are no contestant's, drawn with the bands."""

    @property
    def empty(self) -> bool:
        return not self.rows and not self.bands

    def altair(self, theme: Theme, subtitle: str = "") -> AltairChart:
        """With its data, and with only those contestants in its legend that it holds."""
        rows = self.drawn_rows
        chart = self.draw(theme.with_only({row.get("contestant") for row in rows}), self.title)
        if subtitle:
            chart.title.subtitle = textwrap.wrap(subtitle, SUBTITLE_LETTERS)
        return chart.properties(datasets={"rows": rows})

    @property
    def all_rows(self) -> list[dict[str, Any]]:
        """The data."""
        rows = [dict(row) for row in self.rows]
        if self.bands and self.threshold is not None:
            rows.append({"threshold": self.threshold})
        for band in self.bands:
            columns = (digits(values) for values in (band.x, band.y, band.low, band.high))
            rows += [
                {"contestant": band.contestant, "x": x, "y": y, "low": low, "high": high}
                for x, y, low, high in zip(*columns, strict=True)
            ]
        return rows + [dict(row) for row in self.beside]

    @property
    def drawn_rows(self) -> list[dict[str, Any]]:
        """The data with what drawing them needs; script.js makes the same rows from `packed`."""
        if not self.bands:
            return self.all_rows
        twins = coincident(self.bands)
        widths = line_widths(self.bands, twins)
        rows = [
            row | {"width": widths[row["contestant"]]} if "contestant" in row else row
            for row in self.all_rows
        ]
        # Vega draws the lines in the order of their first rows.
        rows.sort(key=lambda row: -row.get("width", 0))
        notes = same_lines(twins)
        return rows + [{"note": words, "line": len(notes) - index} for index, words in enumerate(notes, 1)]

    @property
    def packed(self) -> dict[str, Any]:
        """The data as the page holds them: bands as columns per contestant take a third of the space."""
        if self.rows:
            return {"rows": self.rows}
        twins = coincident(self.bands)
        widths = line_widths(self.bands, twins)
        bands = {
            band.contestant: {
                "x": digits(band.x),
                "y": digits(band.y),
                "low": digits(band.low),
                "high": digits(band.high),
                "width": widths[band.contestant],
            }
            for band in sorted(self.bands, key=lambda band: -widths[band.contestant])
        }
        held = {"bands": bands, "threshold": self.threshold, "notes": same_lines(twins)}
        return held | ({"beside": self.beside} if self.beside else {})


def line_widths(bands: Sequence[Band], twins: Sequence[Sequence[str]]) -> dict[str, float]:
    """Contestant → width of its line; of those that lie on one another the last, on top, is the narrowest."""
    widths = {band.contestant: LINE_WIDTH for band in bands}
    for names in twins:
        widths |= {name: LINE_WIDTH + 2.5 * above for above, name in enumerate(reversed(names))}
    return widths


def same_lines(twins: Sequence[Sequence[str]]) -> list[str]:
    """What a chart says about lines that lie on one another: lines of text with two names each."""
    return [
        ("same line: " if first == 0 else "")
        + ", ".join(names[first : first + 2])
        + ("," if first + 2 < len(names) else "")
        for names in twins
        for first in range(0, len(names), 2)
    ]


@dataclass(frozen=True)
class Panel:
    """Charts that stand together: of a comparison, a task, an axis of the study, the whole run."""

    id: str
    """Sections may share a panel: the ids of its charts differ."""
    label: str
    charts: tuple[Chart, ...]
    note: str = ""
    """Shown where there is no chart."""

    @property
    def by_caption(self) -> list[tuple[str, list[Chart]]]:
        """(caption, the charts that stand above it)."""
        return [
            (caption, list(charts))
            for caption, charts in itertools.groupby(self.charts, key=lambda chart: chart.caption)
        ]


def nothing(_: Material) -> tuple[()]:
    return ()


def no_context(_: Material) -> dict[str, Any]:
    return {}


@dataclass(frozen=True)
class Section:
    """One part of the report. A module in `sections/` exports it as SECTION; nothing else names it."""

    id: str
    order: int
    """Sections stand in the page by rising order."""
    title: str
    short: str = ""
    """The title in the navigation, where it has a shorter one."""
    charts: Callable[[Material], Iterable[Panel]] = nothing
    tables: Callable[[Material], Iterable[Table]] = nothing
    """Whole: `--figures` and `rldyno export --tables` write them to files."""
    context: Callable[[Material], Mapping[str, Any]] = no_context
    """What the template shows beside `panels` and `tables()`."""
    shown: Callable[[Material], bool] | None = None
    """Whether these results have the section; without it: whether they have a chart or a table of it."""
    curves: tuple[Curve, ...] = ()
    """Series of runs that its charts draw: all sections' are read together, once."""
    run_values: tuple[RunValues | SharedValues, ...] = ()
    """Values of runs that are computed from their series, in the same reading."""
    template: str = ""
    """Jinja text; where it is empty, the file `<id>.html.j2` beside the module, whose name is the id."""
    about: str = ""
    """One line beside the title of a folded section: what a reader finds inside."""
    open: bool = False
    """Whether it is part of the page that is read in a minute; the others are folded."""
    legend: bool = False
    """Whether the buttons that show and hide contestants stay in view beside it."""


def significant(value: float) -> float:
    """Four digits: more than a chart can show."""
    return float(f"{value:.4g}")


def spread(row: Mapping[str, Any], name: str, key: str, scale: float = 1.0) -> dict[str, float]:
    """Median and quartiles of a measure, from a row of `GroupPlace.summary`; the median as `key`."""
    return {
        key: significant(row[f"{name} middle"] * scale),
        "low": significant(row[f"{name} low"] * scale),
        "high": significant(row[f"{name} high"] * scale),
    }


def bar(found: Estimate, key: str) -> dict[str, Any]:
    """An estimate as `key`, and its bounds. One that is unknown or infinite is drawn as the estimate."""
    low, high = (found.point if end is None or math.isinf(end) else end for end in (found.low, found.high))
    return {
        "range": found.kind == RANGE,
        key: significant(found.point),
        "low": significant(low),
        "high": significant(high),
    }


def digits(values: Any) -> list[float]:
    """`significant` of each value of an array."""
    return [float(f"{value:.4g}") for value in values.tolist()]


def slug(text: str) -> str:
    """A name for files: letters and digits of a label, the rest as single dashes."""
    return re.sub(r"[^a-z0-9.]+", "-", text.lower()).strip("-.")
