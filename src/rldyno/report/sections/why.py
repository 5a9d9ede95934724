"""Why: in which phases the others lose time against the fastest, and what each form of a framework gives."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from rldyno.answers.groups import STARTUP, THROUGHPUT, Group
from rldyno.answers.trust import compared
from rldyno.answers.why import PHASES, Phase, Split, Why, why
from rldyno.answers.why_steps import Level, Waterfall, plain, waterfall_table, waterfall_words, waterfalls
from rldyno.answers.why_words import in_order, percent, phase_row, sentence, us
from rldyno.report.charts import draw_stacked
from rldyno.report.libraries import alt
from rldyno.report.material import OPEN_GROUPS, Material
from rldyno.report.parts import data, part_colour, plain_axis, rows_axis
from rldyno.report.section import Chart, Panel, Section, significant
from rldyno.report.theme import AltairChart, Theme, finished, visible
from rldyno.text.numbers import number
from rldyno.text.tables import Table
from rldyno_rig import schema

LOST = (
    "Time per step that each contestant takes longer than the fastest one, by phase; the parts sum to the "
    "whole difference. What stands left of 0 is a phase in which the contestant is faster. Only ranked "
    "contestants are shown."
)
FALLS = (
    "Time per step of one framework, from its plain mode to its fastest form in this study, by phase. "
    "Between two bars: what the next form saves, from right to left. More environments, and the open "
    "division, change what is learned from a step: this compares speeds, not learning."
)
TABLE_COLUMNS = ("Comparison", "Fastest", "Other", "Phase", "µs, fastest", "µs, other")
SPLIT_COLUMNS = ("Difference", "Share", "By calls", "By cost", "Calls per step", "µs per call")


def found_in(material: Material) -> list[tuple[Group, list[Why]]]:
    """The first comparisons in which something may be said, and the fastest against each other contestant."""
    return material.analysis.once(("why",), lambda: against_fastest(material))


def against_fastest(material: Material) -> list[tuple[Group, list[Why]]]:
    said = []
    for group in material.groups:
        rows = compared(group, THROUGHPUT)
        if group.trusts[THROUGHPUT.name].barred or len(rows) < 2:
            continue
        others = (why(material.results, group, rows[0].contestant, row.contestant) for row in rows[1:])
        known = [one for one in others if one is not None and not one.trust.barred]
        if any(one.said for one in known):
            said.append((group, known))
        if len(said) == OPEN_GROUPS:
            break
    return said


def falls_in(material: Material) -> list[Waterfall]:
    return material.analysis.once(("waterfalls",), lambda: waterfalls(material.results, material.groups))


def reasons(material: Material) -> list[tuple[str, str]]:
    """(comparison, sentences)."""
    return [(group.label, reason(group, known)) for group, known in found_in(material)]


def reason(group: Group, known: Sequence[Why]) -> str:
    """The fastest against the runner-up and against the slowest; doubts stand in the sections above."""
    said = [sentence(known[index], doubts=False) for index in dict.fromkeys((0, len(known) - 1))]
    steps = known[0].split
    names = f"`{known[0].fast}`", f"`{known[0].slow}`"
    said.append(f"A step takes {names[0]} {parts(steps, 'fast')} and {names[1]} {parts(steps, 'slow')}.")
    rows = {row.contestant: row for row in group.rows}
    figures = [rows[name].figures.get(STARTUP.name) for name in (known[0].fast, known[0].slow)]
    starts = [figure.estimate.point for figure in figures if figure is not None]
    if len(starts) == len(names):
        said.append(f"Start-up takes {' and '.join(map(number, starts))} s.")
    return " ".join(said)


def parts(split: Split, side: str) -> str:
    """`136 µs (framework 95, shared 41)`; what is neither stands in the whole alone."""
    cost = {phase.name: getattr(phase, side).us for phase in split.phases}
    framework, shared = (
        sum(cost.get(phase, 0.0) for phase in phases)
        for phases in (schema.FRAMEWORK_PHASES, schema.SHARED_PHASES)
    )
    return f"{number(sum(cost.values()))} µs (framework {number(framework)}, shared {number(shared)})"


def charts(material: Material) -> Iterable[Panel]:
    places = {id(place.group): place.id for place in material.places}
    shown = phases_of(material)
    for group, known in found_in(material):
        rows = [row for order, one in enumerate(known) for row in lost_rows(one, order)]
        yield Panel(places[id(group)], group.label, (lost_chart(rows, shown),))
    draw = partial(draw_waterfall, shown=shown)
    for index, fall in enumerate(shown_falls(material)):
        chart = Chart("waterfall", "Forms of one framework", FALLS, draw, waterfall_bars(fall))
        yield Panel(f"waterfall-{index}", fall.title, (chart,))


def phases_of(material: Material) -> tuple[str, ...]:
    """Those that a legend must have: all of one worker, and others up to the last that occurs."""
    splits = [one.split for _, known in found_in(material) for one in known]
    splits += [step.split for fall in shown_falls(material) for step in fall.steps]
    last = max((PHASES.index(phase.name) for split in splits for phase in split.phases), default=0)
    return PHASES[: max(last + 1, len(schema.PHASES))]


def shown_falls(material: Material) -> list[Waterfall]:
    return [fall for fall in falls_in(material) if not fall.trust.barred][:OPEN_GROUPS]


def lost_chart(rows: Sequence[dict[str, Any]], shown: Sequence[str]) -> Chart:
    draw = partial(
        draw_stacked,
        parts=shown,
        palette="phases",
        column="us",
        x_title="µs per step more than the fastest",
        form=",.3~r",
    )
    return Chart("why", "Where the others lose time", LOST, draw, rows)


def lost_rows(found: Why, order: int) -> list[dict[str, Any]]:
    return [
        {
            "contestant": found.slow,
            "order": order,
            "part": phase.name,
            "part_order": PHASES.index(phase.name),
            "us": significant(phase.gap.difference.point),
            "text": f"{us(phase.gap.difference.point)} µs, {percent(phase)}",
        }
        for phase in in_order(found.split.phases)
    ]


def waterfall_bars(found: Waterfall) -> list[dict[str, Any]]:
    """Bars of the levels from 0, and between them what changed, from the end of the bar before."""
    first = found.steps[0].split
    rows = bars(found.first, "", 0, [(one, one.slow.us) for one in first.phases], 0.0)
    for index, step in enumerate(found.steps):
        changes = [(one, -one.gap.difference.point) for one in step.split.phases]
        rows += bars(step.level, "to ", 2 * index + 1, changes, step.split.slow_us)
        rows += bars(step.level, "", 2 * index + 2, [(one, one.fast.us) for one in step.split.phases], 0.0)
    return rows


def bars(
    level: Level, prefix: str, order: int, sizes: Sequence[tuple[Phase, float]], start: float
) -> list[dict[str, Any]]:
    rows = []
    for phase, size in sizes:
        rows.append(
            {
                "contestant": level.contestant,
                "label": prefix + plain(level),
                "order": order,
                "part": phase.name,
                "start": significant(start),
                "end": significant(start + size),
                "text": f"{us(size)} µs",
            }
        )
        start += size
    return rows


def draw_waterfall(theme: Theme, title: str, shown: Sequence[str]) -> AltairChart:
    drawn = (
        visible(data())
        .mark_bar(cornerRadius=1)
        .encode(
            x=alt.X(
                "start:Q", title="µs per step", axis=plain_axis(), scale=alt.Scale(zero=True, nice=False)
            ),
            x2="end:Q",
            y=rows_axis(theme, "label:N"),
            color=part_colour(theme, shown, "phases", 3),
            tooltip=[
                alt.Tooltip("label:N", title="form"),
                alt.Tooltip("part:N"),
                alt.Tooltip("text:N", title="µs per step"),
            ],
        )
    )
    return finished(drawn, theme, title, height=alt.Step(26))


def tables(material: Material) -> list[Table]:
    rows = tuple(
        (group.label, one.fast, one.slow, *phase_row(phase, False))
        for group, known in found_in(material)
        for one in known
        for phase in one.split.phases
    )
    columns = TABLE_COLUMNS + SPLIT_COLUMNS
    made = [Table("why", "Differences from the fastest, by phase", columns, rows)] if rows else []
    falls = falls_in(material)
    return [*made, waterfall_table(falls)] if falls else made


def context(material: Material) -> dict[str, Any]:
    return {"reasons": reasons(material), "falls": list(map(waterfall_words, shown_falls(material)))}


SECTION = Section(
    id="why",
    order=25,
    title="Why",
    charts=charts,
    tables=tables,
    context=context,
    shown=lambda material: bool(found_in(material)) or bool(falls_in(material)),
    open=True,
)
