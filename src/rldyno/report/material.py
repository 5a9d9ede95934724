"""What the sections are made from: the analysis of the results, and the series of all runs, read once."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import polars as pl

from rldyno.answers.analysis import Analysis
from rldyno.answers.groups import Absence, Group, absences
from rldyno.curves.curve import ExternalCurve
from rldyno.curves.store import known_curves
from rldyno.division.record import OpenRecord, read_open
from rldyno.nets.record import NetsRecord, read_record
from rldyno.records.status import DONE
from rldyno.report.charts import band_chart
from rldyno.report.private import without_secrets
from rldyno.report.section import Chart, Panel, Section, slug
from rldyno.report.series import Curve, GroupSeries, read_group
from rldyno.report.theme import Style, styles_of
from rldyno.results.load import Results

# Points of all curves together; a curve keeps between 20 and 100 of them.
POINT_BUDGET = 120_000
# Of more comparisons than this, all but the first are folded away until the reader opens them.
OPEN_GROUPS = 6


@dataclass(frozen=True)
class GroupPlace:
    """A comparison and where the report shows it."""

    id: str
    """Of its panel."""
    stem: str
    """Of the names of its files."""
    group: Group
    series: GroupSeries

    def bands(self, curve: Curve) -> Chart:
        """The chart of a curve; empty where no contestant has the series."""
        return band_chart(
            curve, self.series.bands[curve.id], self.group.stop_return if curve.to_threshold else None
        )

    def summary(self, measures: Mapping[str, pl.Expr]) -> pl.DataFrame:
        """Per contestant `<measure> low`, `middle` and `high`: quartiles over its finished trials.

        Measures are expressions of the trials table joined with the run values of all sections.
        """
        done = self.group.trials.filter(pl.col("status") == DONE)
        quartiles = [
            value.quantile(share, "linear").alias(f"{name} {where}")
            for name, value in measures.items()
            for where, share in (("low", 0.25), ("middle", 0.5), ("high", 0.75))
        ]
        joined = done.join(self.series.values, on="trial", how="left")
        return joined.group_by("contestant", maintain_order=True).agg(quartiles)


class Material:
    """Made once per report; what it computes, it keeps."""

    def __init__(self, analysis: Analysis, sections: Sequence[Section]) -> None:
        self.analysis = analysis = without_secrets(analysis)
        self.results: Results = analysis.results
        self.sections = sections
        self.groups: tuple[Group, ...] = tuple(analysis.comparisons)

    @cached_property
    def styles(self) -> tuple[Style, ...]:
        """How each contestant with a finished trial is drawn."""
        return styles_of(self.results.trials.filter(pl.col("status") == DONE)["contestant"].to_list())

    @property
    def legend(self) -> list[tuple[int, Style]]:
        """Index and style of each contestant, in the study's order, as in tables and charts."""
        names = list(dict.fromkeys(row.contestant for group in self.groups for row in group.rows))
        return sorted(enumerate(self.styles), key=lambda pair: names.index(pair[1].contestant))

    @cached_property
    def places(self) -> tuple[GroupPlace, ...]:
        """Every comparison, in the order of the page."""
        curves = [curve for section in self.sections for curve in section.curves]
        values = [value for section in self.sections for value in section.run_values]
        many = len(curves) * sum(len(group.rows) for group in self.groups)
        points = max(20, min(100, POINT_BUDGET // max(1, many)))
        names = stems([group.label for group in self.groups])
        return tuple(
            GroupPlace(f"group-{index}", stem, group, read_group(self.results, group, curves, values, points))
            for index, (group, stem) in enumerate(zip(self.groups, names, strict=True))
        )

    @cached_property
    def networks(self) -> NetsRecord | None:
        """Networks timed alone; None where `rldyno nets` has left nothing in the directory."""
        return read_record(self.results.directory)

    @cached_property
    def open_loops(self) -> OpenRecord | None:
        """Whole loops; None where `rldyno open` has left nothing in the directory."""
        return read_open(self.results.directory)

    @cached_property
    def curves(self) -> tuple[ExternalCurve, ...]:
        """By others: kept with the results, or shipped."""
        return known_curves(self.results.directory)

    @property
    def damaged(self) -> list[str]:
        """Series that could not be read, one sentence each."""
        return [note for place in self.places for note in place.series.damaged]

    @property
    def open_places(self) -> tuple[GroupPlace, ...]:
        """Those that the page does not fold away."""
        return self.places if len(self.places) <= OPEN_GROUPS else self.places[:1]

    @cached_property
    def tasks(self) -> dict[str, list[GroupPlace]]:
        """Task → its comparisons: one algorithm on one environment, in every setting."""
        found: dict[str, list[GroupPlace]] = {}
        for place in self.places:
            found.setdefault(f"{place.group.algorithm} on {place.group.environment}", []).append(place)
        return found

    @property
    def absences(self) -> list[Absence]:
        """Who could not run, where, and why."""
        return absences(self.groups)

    def panels(
        self, charts: Callable[[GroupPlace], Iterable[Chart]], only_recorded: bool = False
    ) -> tuple[Panel, ...]:
        """A panel per comparison, with those charts that have data.

        A comparison without any has a note, or with `only_recorded` no panel.
        """
        found = []
        for place in self.places:
            drawn = tuple(chart for chart in charts(place) if not chart.empty)
            done = any(row.done for row in place.group.rows)
            note = "Not recorded." if done else "No trial of this comparison is complete."
            if drawn or not only_recorded:
                found.append(Panel(place.id, place.group.label, drawn, note))
        return tuple(found)


def stems(labels: Iterable[str]) -> list[str]:
    """Names of files from labels; a number is appended where two would be the same."""
    seen: dict[str, itertools.count[int]] = {}
    names = []
    for label in labels:
        stem = slug(label)[:120]
        number = next(seen.setdefault(stem, itertools.count(1)))
        names.append(stem if number == 1 else f"{stem}-{number}")
    return names
