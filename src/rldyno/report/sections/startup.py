"""The parts of start-up, and the run length after which a contestant that starts later is faster."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from rldyno.answers import wording
from rldyno.answers.break_even import pairwise, run_costs, run_lengths
from rldyno.answers.groups import THROUGHPUT, Group
from rldyno.report.charts import draw_stacked
from rldyno.report.libraries import alt
from rldyno.report.material import Material
from rldyno.report.parts import data, powers_axis
from rldyno.report.section import Chart, Section, significant
from rldyno.report.sections.phases import part_rows
from rldyno.report.theme import AltairChart, Theme, colour, dash, finished, visible
from rldyno.stats.estimates import Estimate
from rldyno.text.numbers import count
from rldyno.text.tables import Table
from rldyno_rig import schema

CAPTION = (
    "Start-up: from the start of the process to the first training step; the first call includes "
    "compilation; means over seeds. Time of a run: start-up, then the steps that fill a replay memory, then "
    "steps with their updates, from geometric means over seeds. Where two lines cross, the contestant that "
    "started later has caught up."
)
PART_WORDS = {"first_call": "first call", "warm": "warm-up"}
# Steps for which the time of a run is drawn.
RUN_LENGTHS = np.geomspace(1e3, 1e7, 33)


def charts(material: Material) -> Any:
    return material.panels(lambda place: [startup_chart(place.group), length_chart(place.group)])


def startup_chart(group: Group) -> Chart:
    columns = {PART_WORDS.get(part, part): f"startup_{part}_s" for part in schema.STARTUP}
    x_title = "seconds before the first step"
    draw = partial(
        draw_stacked, parts=tuple(columns), palette="stages", column="seconds", x_title=x_title, form="~g"
    )
    return Chart("startup", "Start-up, by part", CAPTION, draw, part_rows(group, columns))


def length_chart(group: Group) -> Chart:
    return Chart(
        "break-even", "Time that a run of so many steps takes", CAPTION, draw_lengths, length_rows(group)
    )


def length_rows(group: Group) -> list[dict[str, Any]]:
    found = run_costs({row.contestant: group.runs[row.contestant] for row in group.rows})
    return [
        {
            "contestant": course.contestant,
            "x": significant(float(steps)),
            "y": significant(course.seconds(float(steps))),
        }
        for course in found
        for steps in RUN_LENGTHS
    ]


def draw_lengths(theme: Theme, title: str) -> AltairChart:
    """Seconds from the start of the process until N steps are done, start-up + N / speed."""
    line = (
        visible(data())
        .encode(color=colour(theme))
        .mark_line(strokeWidth=2)
        .encode(
            x=alt.X(
                "x:Q", title="environment steps", scale=alt.Scale(type="log", nice=False), axis=powers_axis()
            ),
            y=alt.Y("y:Q", title="seconds since start", scale=alt.Scale(type="log"), axis=powers_axis()),
            strokeDash=dash(theme),
            tooltip=[
                alt.Tooltip("contestant:N"),
                alt.Tooltip("x:Q", title="environment steps", format=",.3~s"),
                alt.Tooltip("y:Q", title="seconds since start", format=",.4~g"),
            ],
        )
    )
    return finished(line, theme, title, height=260)


def context(material: Material) -> dict[str, Any]:
    """Panel → who finishes first by the length of a run, in words and as a table; of those that are open."""
    return {
        "words_of": {place.id: length_words(material, place.group) for place in material.open_places},
        "tables_of": {place.id: crossover_table(material, place.group, "") for place in material.open_places},
    }


def length_words(material: Material, group: Group) -> str:
    """Empty when fewer than two contestants are ranked."""
    if len(group.ranked) < 2:
        return ""
    trust = group.trusts[THROUGHPUT.name]
    if trust.barred:
        return f"No break-even is named. {trust.words}"
    found = run_lengths(material.analysis.run_costs(group))
    if found is None:
        return "No break-even: fewer than two of the ranked contestants have a run that made an update."
    return f"{found.words} {wording.runs_here(group)}"


def tables(material: Material) -> list[Table]:
    found = (crossover_table(material, place.group, f"{place.stem}--overtaking") for place in material.places)
    return [table for table in found if table is not None]


def crossover_table(material: Material, group: Group, name: str) -> Table | None:
    """Every pair of the ranked contestants; None with fewer than two that have learned, or where barred."""
    found = pairwise(material.analysis.run_costs(group))
    if not found or group.trusts[THROUGHPUT.name].barred:
        return None
    return Table(
        name=name,
        title=f"Which contestant overtakes which, with 95 % intervals: {group.label}",
        columns=("Starts later", "Overtakes", "After steps", "After updates"),
        rows=tuple((pair.then, pair.first, length(pair.steps), length(pair.updates)) for pair in found),
    )


def length(estimate: Estimate | None) -> str:
    """`98,000 (61,000–150,000)`, `never (61,000–∞)`, `never`."""
    if estimate is None:
        return "–"
    point = "never" if math.isinf(estimate.point) else count(estimate.point)
    if estimate.low is None or estimate.high is None or math.isinf(estimate.low):
        return point
    return f"{point} ({count(estimate.low)}–{count(estimate.high)})"


SECTION = Section(
    id="startup",
    order=100,
    title="Start-up and break-even",
    about="the parts of start-up; from which length of a run another contestant is faster",
    short="Start-up",
    charts=charts,
    tables=tables,
    context=context,
    shown=lambda _: True,
    legend=True,
)
