"""Everything a report shows, gathered once: the HTML page and the picture files are made from it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import polars as pl

from rldyno.answers.groups import MAIN_METRICS, Group
from rldyno.answers.limits import Distance
from rldyno.answers.table import compare
from rldyno.report import charts, measures
from rldyno.report.curves import Band, GroupCurves, group_curves
from rldyno.report.data import group_data, noise_rows, overview_rows
from rldyno.report.hardware import hardware_tables
from rldyno.report.integrals import integrals_of_runs
from rldyno.report.limits import distances_by_group, limits_table
from rldyno.report.memory import STAGES, growth_table
from rldyno.report.nets import nets_tables
from rldyno.report.phases import phase_bands
from rldyno.report.seeds import seeds_tables
from rldyno.report.theme import Chart, Style, Theme, styles_of
from rldyno.report.threshold import threshold_table
from rldyno.report.usability import usability_tables
from rldyno.results.load import Results
from rldyno.text.tables import Table
from rldyno_rig import schema

Json = dict[str, Any]
Definition = Callable[[Theme], Chart]
# Points of all curves together; a curve keeps between 20 and 100 of them.
POINT_BUDGET = 120_000


@dataclass(frozen=True)
class Scope:
    """A part of the report that has charts of its own: a comparison, a task, an axis, the whole run."""

    id: str
    label: str
    charts: dict[str, Json]
    """Data by the name of the chart."""


@dataclass(frozen=True)
class Content:
    results: Results
    groups: tuple[Group, ...]
    styles: tuple[Style, ...]
    comparisons: tuple[Scope, ...]
    """One per group, in their order."""
    tasks: tuple[Scope, ...]
    axes: tuple[Scope, ...]
    run: Scope
    definitions: dict[str, Definition]
    tables: dict[str, tuple[Table, ...]]
    """Section → its tables."""
    damaged: tuple[str, ...]
    """Series that could not be read, one sentence each."""

    @property
    def scopes(self) -> tuple[Scope, ...]:
        return (*self.comparisons, *self.tasks, *self.axes, self.run)


def gather(results: Results) -> Content:
    groups = tuple(sorted(compare(results), key=natural_order))
    points = curve_points(groups)
    curves = [group_curves(results, group, points) for group in groups]
    summaries = [measures.summary(group, found.use) for group, found in zip(groups, curves, strict=True)]
    damaged = [note for found in curves for note in found.damaged]
    phases = [phase_bands(results, group, points, damaged) for group in groups]
    distances = distances_by_group(results, groups)
    definitions = group_definitions(groups)
    axes = axis_scopes(groups, summaries, definitions)
    return Content(
        results=results,
        groups=groups,
        styles=styles_of(results.trials.filter(pl.col("status") == "done")["contestant"].to_list()),
        comparisons=comparison_scopes(groups, curves, phases, distances),
        tasks=task_scopes(groups, summaries),
        axes=axes,
        run=run_scope(results, groups),
        definitions=definitions,
        tables={
            "seeds": seeds_tables(results),
            "threshold": present(threshold_table(groups)),
            "memory": present(growth_table(groups)),
            "integrals": present(integrals_of_runs(groups, [found.use for found in curves])),
            "hardware": hardware_tables(results, groups),
            "limits": present(limits_table(distances, groups)),
            "nets": nets_tables(results),
            "usability": usability_tables(results),
        },
        damaged=tuple(damaged),
    )


def present(table: Table | None) -> tuple[Table, ...]:
    return () if table is None else (table,)


def run_scope(results: Results, groups: Sequence[Group]) -> Scope:
    """What all trials together show."""
    data = {"noise": {"rows": noise_rows(results)}}
    # One comparison is its own picture.
    if len(groups) > 1 and (rows := overview_rows(groups)):
        data["overview"] = {"rows": rows}
    return Scope("run", "All trials", data)


def natural_order(group: Group) -> list[tuple[bool, float, str]]:
    """By task, then by rising settings: numbers before words, and what has no value last."""
    return [
        (value is None, value, "")
        if isinstance(value, int | float)
        else (value is None, math.inf, str(value))
        for value in group.axes.values()
    ]


def comparison_scopes(
    groups: Sequence[Group],
    curves: Sequence[GroupCurves],
    phases: Sequence[Mapping[str, Sequence[Band]]],
    distances: Mapping[str, Sequence[Distance]],
) -> tuple[Scope, ...]:
    return tuple(
        Scope(f"group-{index}", group.label, group_data(group, found, costs, distances.get(group.label, ())))
        for index, (group, found, costs) in enumerate(zip(groups, curves, phases, strict=True))
    )


def task_scopes(groups: Sequence[Group], summaries: Sequence[pl.DataFrame]) -> tuple[Scope, ...]:
    scopes = []
    for index, (label, members) in enumerate(measures.tasks(groups).items()):
        rows = {
            measure.name: measures.task_rows(members, summaries, groups, measure.name)
            for measure in measures.SIDE_BY_SIDE
        }
        scopes.append(
            Scope(f"task-{index}", label, {name: {"rows": found} for name, found in rows.items() if found})
        )
    return tuple(scope for scope in scopes if scope.charts)


def axis_scopes(
    groups: Sequence[Group], summaries: Sequence[pl.DataFrame], definitions: dict[str, Definition]
) -> tuple[Scope, ...]:
    """Also adds the definitions of the charts: their x axis has the name of the study's."""
    scopes = []
    for index, family in enumerate(measures.families(groups)):
        title = measures.axis_title(family.axis, groups[family.members[0]])
        data = {}
        for measure in measures.AGAINST_AXIS:
            rows = measures.axis_rows(family, summaries, groups, measure.name)
            if rows:
                name = f"{slug(title)}-{measure.name}"
                data[name] = {"rows": rows}
                definitions[name] = partial(
                    charts.scaling, title=measure.title, x_title=title, y_title=measure.unit
                )
        scopes.append(Scope(f"axis-{index}", f"{family.label}: against {title}", data))
    return tuple(scope for scope in scopes if scope.charts)


def group_definitions(groups: Sequence[Group]) -> dict[str, Definition]:
    made: dict[str, Definition] = {
        "learning-steps": charts.learning_against_steps,
        "learning-episodes": charts.learning_against_episodes,
        "learning-time": charts.learning_against_time,
        "cpu": charts.cpu_against_time,
        "memory": charts.memory_against_time,
        "memory-split": partial(charts.memory_split, stages=tuple(STAGES)),
        "gpu": charts.gpu_against_time,
        "gpu-memory": charts.gpu_memory_against_time,
        "power": charts.power_against_time,
        "distance": charts.distance,
        "overview": charts.overview,
        "phases": charts.phases,
        **{f"phase-{phase}": partial(charts.phase_against_steps, phase=phase) for phase in schema.PHASES},
        "startup": charts.startup,
        "break-even": charts.break_even,
        "noise": charts.noise,
    }
    settings = any(group.setting for group in groups)
    for measure in measures.SIDE_BY_SIDE:
        made[measure.name] = partial(
            charts.side_by_side, title=measure.title, x_title=measure.unit, settings=settings
        )
    primaries = {group.primary.name for group in groups}
    for metric in MAIN_METRICS:
        if metric.name in primaries:
            x_title = f"{metric.title.lower()}, {metric.unit}"
            made[f"answer-{metric.key}"] = partial(charts.answer, title=metric.title, x_title=x_title)
    return made


def curve_points(groups: Sequence[Group]) -> int:
    curves = (8 + len(schema.PHASES)) * sum(len(group.rows) for group in groups)
    return max(20, min(100, POINT_BUDGET // max(1, curves)))


def slug(text: str) -> str:
    """A name for files: letters and digits of a label, the rest as single dashes."""
    return re.sub(r"[^a-z0-9.]+", "-", text.lower()).strip("-.")
