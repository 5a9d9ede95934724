"""What several workers give and cost: speed-up, communication, and one worker with as many cores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from rldyno.answers.groups import Group, axis_words
from rldyno.answers.teams import Against
from rldyno.report.charts import draw_against_axis, draw_stacked
from rldyno.report.libraries import alt
from rldyno.report.material import Material
from rldyno.report.parts import data
from rldyno.report.section import Chart, Panel, Section, bar, significant
from rldyno.report.sections.phases import ORDERED
from rldyno.report.theme import AltairChart, Theme
from rldyno.results.columns import column
from rldyno.stats.estimates import Estimate
from rldyno.text.numbers import factor, number, span
from rldyno.text.tables import Table

REDUCE, WAIT = "reduce", "wait"
PARTS = (*ORDERED, REDUCE, WAIT)
SPEEDUP = (
    "Steps per second of all workers over those of one worker of the same contestant, with the 95 % "
    "interval, dashed where it is the range of too few runs. The dotted line is the ideal: twice as fast "
    "with twice as many. Each worker has as many cores as the one. Hollow points are shown but not ranked."
)
STEP = (
    "Training time of worker 0 per environment step of all workers; means over seeds. Reduce: averaging the "
    "gradients, as long as it takes the worker that comes last. Wait: the rest of the time in which worker 0 "
    "communicates, which is waiting for slower workers and agreeing on when to stop."
)
COSTS = ("communication_share", "waiting_share", "reduction_s", "reduction_bytes")
COLUMNS = (
    "Contestant",
    "Workers",
    "Speed-up",
    "Efficiency",
    *(f"{column(name).heading}, {column(name).unit}" for name in COSTS),
    "Task",
    "Doubts",
)
CORE_COLUMNS = ("Contestant", "Workers", "Against", "Steps/s", "Ratio", "The workers are", "Task", "Doubts")


def charts(material: Material) -> list[Panel]:
    tasks: dict[str, list[Against]] = {}
    for one in material.analysis.speedups:
        tasks.setdefault(one.task, []).append(one)
    return [
        Panel(f"team-{index}", task, tuple(task_charts(found)))
        for index, (task, found) in enumerate(tasks.items())
    ]


def task_charts(found: Sequence[Against]) -> Iterator[Chart]:
    """Speed-up by collective and scaling, then what a step costs by scaling."""
    ways = dict.fromkeys((one.team.axes["scaling"], one.team.axes["collective"]) for one in found)
    for scaling, collective in ways:
        alike = [
            one
            for one in found
            if (one.team.axes["scaling"], one.team.axes["collective"]) == (scaling, collective)
        ]
        title = f"Speed-up, collective {collective}, {scaling} scaling"
        rows = speedup_rows(alike)
        if rows:
            yield Chart(f"speedup-{scaling}-{collective}", title, SPEEDUP, draw_speedup, rows)
    draw = partial(
        draw_stacked,
        parts=PARTS,
        palette="phases",
        column="us",
        x_title="µs per step",
        form=",.3~r",
        field="label:N",
        lines=2,
    )
    for scaling in dict.fromkeys(scaling for scaling, _ in ways):
        alike = [one for one in found if one.team.axes["scaling"] == scaling]
        title = f"Time of a step, {scaling} scaling"
        yield Chart(f"team-step-{scaling}", title, STEP, draw, step_rows(alike))


def speedup_rows(alike: Sequence[Against]) -> list[dict[str, Any]]:
    """With one worker as the first point of each contestant, and the ideal of each number of workers."""
    rows: list[dict[str, Any]] = []
    for one in alike:
        if one.ratio is None:
            continue
        if one.contestant not in {row["contestant"] for row in rows}:
            rows.append(point_row(one, 1, Estimate(1.0, 1.0, 1.0, one.ratio.n)))
        rows.append(point_row(one, one.workers, one.ratio))
    ideal = sorted({row["x"] for row in rows})
    return rows + [{"x": workers, "ideal": workers} for workers in ideal]


def point_row(one: Against, workers: int, found: Estimate) -> dict[str, Any]:
    return {"contestant": one.contestant, "x": workers, "ranked": one.ranked, **bar(found, "y")}


def draw_speedup(theme: Theme, title: str) -> AltairChart:
    drawn = draw_against_axis(theme, title, "workers", "times as fast as one worker", "95 % interval")
    ideal = (
        data()
        .transform_filter("isValid(datum.ideal)")
        .mark_line(strokeDash=[2, 3], stroke=theme.muted)
        .encode(x=alt.X("x:O", scale=alt.Scale(type="band")), y=alt.Y("ideal:Q"))
    )
    drawn.layer.insert(0, ideal)
    return drawn


def step_rows(alike: Sequence[Against]) -> list[dict[str, Any]]:
    """The phases of each contestant with one worker and with several, in microseconds per step."""
    groups = {(one.contestant, id(group)): group for one in alike for group in (one.alone, one.team)}
    names = list(dict.fromkeys(one.contestant for one in alike))
    bars = [(name, group) for name in names for (of, _), group in groups.items() if of == name]
    return [
        {
            "contestant": name,
            "label": f"{name}, {team_words(group)}",
            "order": order,
            "part": part,
            "part_order": index,
            "us": significant(us),
            "text": f"{number(us)} µs",
        }
        for order, (name, group) in enumerate(bars)
        for index, (part, us) in enumerate(step_costs(group, name).items())
    ]


def team_words(group: Group) -> str:
    workers = axis_words("workers", group.axes["workers"])
    return workers if group.axes["workers"] == 1 else f"{workers} {group.axes['collective']}"


def step_costs(group: Group, contestant: str) -> dict[str, float]:
    """Part → microseconds per step; those that were not recorded are left out."""
    runs = group.runs[contestant]
    spent = {phase: float(np.mean(runs[f"phase_{phase}_s"])) for phase in ORDERED}
    if group.axes["workers"] > 1:
        reducing = float(np.mean(runs["reducing_s"] - runs["waiting_s"]))
        spent |= {REDUCE: reducing, WAIT: max(0.0, float(np.mean(runs["phase_communicate_s"])) - reducing)}
    steps = float(np.mean(runs["steps"]))
    return {part: 1e6 * seconds / steps for part, seconds in spent.items() if np.isfinite(seconds / steps)}


def tables(material: Material) -> list[Table]:
    """None where no contestant has both one worker and several."""
    gains = tuple(gain_cells(one) for one in material.analysis.speedups)
    equal = tuple(core_cells(one) for one in material.analysis.core_equal)
    found = [
        Table("speedup", "Speed-up, efficiency and communication", COLUMNS, gains),
        Table("core-equal", "Several workers against one with the same number of cores", CORE_COLUMNS, equal),
    ]
    return [without_empty(table) for table in found if table.rows]


def without_empty(table: Table) -> Table:
    """Without the last column, of doubts, where there are none."""
    if any(row[-1] for row in table.rows):
        return table
    return replace(table, columns=table.columns[:-1], rows=tuple(row[:-1] for row in table.rows))


def gain_cells(one: Against) -> tuple[str, ...]:
    return (
        one.contestant,
        f"{one.workers}, {way_words(one)}",
        factor_cell(one.ratio),
        share_cell(one.efficiency),
        *(middle_cell(one, name) for name in COSTS),
        one.task,
        one.trust.words,
    )


def core_cells(one: Against) -> tuple[str, ...]:
    cores = [axis_words("cores", group.axes["cores"]) for group in (one.team, one.alone)]
    speeds = [group.runs[one.contestant].middle("steps_per_s") for group in (one.team, one.alone)]
    return (
        one.contestant,
        f"{one.workers} × {cores[0]}, {way_words(one)}",
        f"1 × {cores[1]}",
        " / ".join("–" if speed is None else number(speed) for speed in speeds),
        factor_cell(one.ratio),
        "–" if one.ratio is None else one.state,
        one.task,
        one.trust.words,
    )


def way_words(one: Against) -> str:
    """`native (gloo), weak`."""
    trials = one.team.trials
    means = trials.filter(trials["contestant"] == one.contestant)["means"].drop_nulls().unique().sort()
    carried = f" ({', '.join(means)})" if len(means) else ""
    return f"{one.team.axes['collective']}{carried}, {one.team.axes['scaling']}"


def factor_cell(found: Estimate | None) -> str:
    if found is None:
        return "–"
    bounds = span(found)
    return factor(found.point) + (f" ({bounds})" if bounds else "")


def share_cell(found: Estimate | None) -> str:
    if found is None:
        return "–"
    bounds = span(found, 100)
    return f"{100 * found.point:.0f} %" + (f" ({bounds})" if bounds else "")


def middle_cell(one: Against, name: str) -> str:
    middle = one.runs.middle(name)
    return "–" if middle is None else number(middle * column(name).scale)


def context(material: Material) -> dict[str, Any]:
    trials = material.results.trials
    return {"shared": bool(trials["share_gpu"].any())}


SECTION = Section(
    id="workers",
    order=85,
    title="Workers",
    about="speed-up and efficiency of several workers, and what communication costs",
    charts=charts,
    tables=tables,
    context=context,
    legend=True,
)
