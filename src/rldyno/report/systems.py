"""Two results directories in one picture: curves and values of both systems side by side, never pooled."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rldyno.answers.analysis import Analysis
from rldyno.answers.changes import by_setting
from rldyno.answers.groups import FRAMEWORK, MAIN_METRICS
from rldyno.columns import Column
from rldyno.report.charts import dashed_rows, draw_dashed_bands, draw_intervals, interval_row
from rldyno.report.figures import known_formats, write_charts, write_index
from rldyno.report.heading import machine_words
from rldyno.report.libraries import alt
from rldyno.report.material import GroupPlace, Material
from rldyno.report.parts import plain_axis
from rldyno.report.section import Chart, Panel, slug
from rldyno.report.sections import all_sections, gpu, learning, resources
from rldyno.report.series import Curve
from rldyno.report.theme import AltairChart, Theme, styles_of

CURVES = (*learning.CURVES, *resources.MACHINE_CURVES, *resources.CURVES, *gpu.CURVES)
METRICS = tuple(metric for metric in MAIN_METRICS if metric is not FRAMEWORK)


@dataclass(frozen=True)
class System:
    """One results directory, and how pictures name it."""

    name: str
    material: Material

    @property
    def words(self) -> str:
        machine = self.material.results.manifest.machine
        used = set(self.material.results.trials["cores"].unique().to_list())
        said = filter(None, [machine.os, machine_words(machine, used)])
        return f"{self.name}: {', '.join(said) or 'unknown machine'}"


@dataclass(frozen=True)
class Shared:
    """A comparison, and those of its contestants that ran the same computation on both systems."""

    places: tuple[GroupPlace, GroupPlace]
    contestants: tuple[str, ...]


def write_systems(first: Analysis, second: Analysis, out: Path, formats: Sequence[str]) -> list[Path]:
    """Write every picture of both; return the files, the index first."""
    known_formats(formats)
    systems = both(first, second)
    panels = system_panels(systems)
    contestants = [name for system in systems for name in system.material.results.trials["contestant"]]
    return write_index(
        out,
        " and ".join(system.material.results.title for system in systems),
        lambda: write_charts(panels, styles_of(contestants), out, formats),
    )


def both(first: Analysis, second: Analysis) -> tuple[System, System]:
    sections = all_sections()
    one, two = (
        System(f"{letter}: {analysis.directory.resolve().name}", Material(analysis, sections))
        for letter, analysis in zip("AB", (first, second), strict=True)
    )
    return one, two


def system_panels(systems: tuple[System, System]) -> list[Panel]:
    """One per comparison of the first that the second has too."""
    found = []
    for index, shared in enumerate(matched(systems)):
        drawn = [
            *(value_chart(systems, shared, metric) for metric in METRICS),
            *(curve_chart(systems, shared, curve) for curve in CURVES),
        ]
        kept = tuple(chart for chart in drawn if not chart.empty)
        found.append(Panel(f"systems-{index}", shared.places[0].group.label, kept))
    return found


def matched(systems: tuple[System, System]) -> Iterator[Shared]:
    """Equal contestants with equal settings, hyper-parameters and stop rule."""
    keys = [keys_of(system.material) for system in systems]
    theirs = {key: place for place, contestants in keys[1] for key in contestants.values()}
    for place, contestants in keys[0]:
        partners: dict[str, tuple[GroupPlace, list[str]]] = {}
        for name, key in contestants.items():
            if key in theirs:
                partners.setdefault(theirs[key].id, (theirs[key], []))[1].append(name)
        for other, names in partners.values():
            yield Shared((place, other), tuple(names))


def keys_of(material: Material) -> list[tuple[GroupPlace, dict[str, tuple[str, ...]]]]:
    """Comparison → contestant → everything that was requested of it; of contestants that ran."""
    settings = {
        trial: key for key, runs in by_setting(material.results).items() for trial in runs.done.trials
    }
    return [
        (
            place,
            {
                name: settings[runs.trials[0]]
                for name, runs in place.group.runs.items()
                if len(runs) and runs.trials[0] in settings
            },
        )
        for place in material.places
    ]


def caption_of(systems: Sequence[System]) -> str:
    return " · ".join(system.words for system in systems)


def curve_chart(systems: tuple[System, System], shared: Shared, curve: Curve) -> Chart:
    rows = [
        row
        for system, place in zip(systems, shared.places, strict=True)
        for band in place.series.bands[curve.id]
        if band.contestant in shared.contestants
        for row in dashed_rows(band, system.name)
    ]
    draw = partial(
        draw_dashed_bands,
        x_title=curve.x_title,
        y_title=curve.y_title,
        zero=curve.zero,
        parts=tuple(system.name for system in systems),
        part_title="system",
    )
    how = "A colour is a contestant, a dash a system. Medians over seeds, bands lie between the quartiles."
    caption = f"{how} {caption_of(systems)}."
    return Chart(f"systems-{curve.id}", f"{curve.title}, two systems", caption, draw, rows)


def value_chart(systems: tuple[System, System], shared: Shared, metric: Column) -> Chart:
    found = (
        row
        for name in shared.contestants
        for system, place in zip(systems, shared.places, strict=True)
        for row in value_rows(name, system.name, place, metric)
    )
    rows = [row | {"order": order} for order, row in enumerate(found)]
    draw = partial(draw_values, x_title=f"{metric.words}, {metric.unit}")
    how = "Estimates over seeds with 95 % intervals. Hollow points are not ranked."
    caption = f"{how} {caption_of(systems)}."
    return Chart(f"systems-{slug(metric.heading)}", f"{metric.heading}, two systems", caption, draw, rows)


def value_rows(contestant: str, system: str, place: GroupPlace, metric: Column) -> Iterator[dict[str, Any]]:
    row = next(row for row in place.group.rows if row.contestant == contestant)
    figure = row.figures.get(metric.name)
    if figure is not None and math.isfinite(figure.estimate.point):
        names = {"contestant": contestant, "label": f"{contestant}, {system}"}
        yield names | interval_row(figure.estimate, row.unranked is None, metric)


def draw_values(theme: Theme, title: str, x_title: str) -> AltairChart:
    axis, scale = plain_axis(tick_count=6), alt.Scale(zero=True)
    return draw_intervals(
        theme, title, x_title, axis, scale, at_least=None, legend=False, field="label:N", lines=2
    )
