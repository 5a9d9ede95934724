"""Learning curves of others, laid over ours: marked as external, and never ranked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from rldyno.answers.groups import Group
from rldyno.curves.curve import ExternalCurve
from rldyno.report.libraries import alt
from rldyno.report.parts import data, plain_axis
from rldyno.report.section import Chart, significant
from rldyno.report.theme import AltairChart, Theme
from rldyno.stats.moments import Floats
from rldyno.text.numbers import count, number
from rldyno.text.tables import Table

MOST_POINTS = 200
# A point much later than the end of our runs says nothing about them, and would flatten their curves.
NEAR_ENOUGH = 0.1
CAPTION = (
    "Dash-dotted lines marked as external are those of others, with their spread as a band, as far as our "
    "runs go; a level line is a single value at the step beside it. They are never ranked."
)
COLUMNS = ("External curve", "Source", "Algorithm", "Environment", "Steps", "Return at the end", "Laid over")


def with_curves(chart: Chart, curves: Sequence[ExternalCurve], group: Group) -> Chart:
    rows = [
        row
        for curve in about(curves, group)
        for row in external_rows(curve, max((float(band.x[-1]) for band in chart.bands), default=0.0))
    ]
    return replace(chart, beside=rows, caption=f"{chart.caption} {CAPTION}") if rows else chart


def about(curves: Sequence[ExternalCurve], group: Group) -> Iterator[ExternalCurve]:
    return (curve for curve in curves if is_about(curve, group))


def is_about(curve: ExternalCurve, group: Group) -> bool:
    """By the names of a study, not by titles."""
    return curve.is_about(str(group.axes["algorithm"]), group.environment)


def external_rows(curve: ExternalCurve, end: float) -> list[dict[str, Any]]:
    """Its points up to the end of our runs, the last with the label; none where it begins later."""
    name = f"external: {curve.name}"
    if curve.is_end_point:
        if end < NEAR_ENOUGH * curve.step[0]:
            return []
        steps, at = np.array([0.0, end]), np.repeat(curve.step, 2)
        name += f", {number(curve.mean[0])} at {count(curve.step[0])} steps"
    else:
        steps = at = drawn_steps(curve, end)
    rows = []
    for step, mean, spread in zip(steps, curve.mean_at(at), curve.spread_at(at), strict=True):
        row = {"external": name, "at": significant(step), "mean": significant(mean)}
        ends = {"from": significant(mean - spread), "to": significant(mean + spread)}
        rows.append(row | (ends if np.isfinite(spread) else {}))
    if rows:
        rows[-1]["label"] = name
    return rows


def drawn_steps(curve: ExternalCurve, end: float) -> Floats:
    steps = curve.step[curve.step <= end]
    if not len(steps):
        return steps
    if len(steps) < len(curve.step):
        steps = np.append(steps, end)
    chosen = np.unique(np.linspace(0, len(steps) - 1, MOST_POINTS).astype(int))
    return np.unique(steps[chosen])


def external_layers(theme: Theme, x_title: str, y_title: str) -> list[AltairChart]:
    """Rows with `external`, in the colour of text: no contestant has it.

    Where there are none, one point of ours that nothing draws: a scale needs some value.
    """
    base = (
        data()
        .transform_filter("isValid(datum.external) || isValid(datum.x)")
        .transform_window(place="row_number()")
        .transform_filter("isValid(datum.external) || datum.place === 1")
        .transform_calculate(
            at="isValid(datum.at) ? datum.at : datum.x",
            mean="isValid(datum.mean) ? datum.mean : datum.y",
            label="isValid(datum.label) ? datum.label : ''",
        )
        .transform_calculate(
            **{end: f"isValid(datum.{end}) ? datum.{end} : datum.mean" for end in ("from", "to")}
        )
    )
    x = alt.X("at:Q", title=x_title, axis=plain_axis(tick_count=5))
    y = alt.Y("mean:Q", title=y_title)
    area = base.mark_area(opacity=0.1, color=theme.ink).encode(
        x=x, y=alt.Y("from:Q", title=y_title), y2="to:Q", detail="external:N"
    )
    line = base.mark_line(strokeWidth=1.3, strokeDash=[6, 2, 1, 2], color=theme.ink).encode(
        x=x,
        y=y,
        detail="external:N",
        tooltip=[
            alt.Tooltip("external:N", title="not ours"),
            alt.Tooltip("at:Q", title=x_title, format=",.4~g"),
            alt.Tooltip("mean:Q", title=y_title, format=",.4~g"),
            alt.Tooltip("from:Q", title="less its spread", format=",.4~g"),
            alt.Tooltip("to:Q", title="plus its spread", format=",.4~g"),
        ],
    )
    label = base.mark_text(
        align="right", baseline="bottom", dx=-4, dy=-3, fontSize=11, color=theme.ink
    ).encode(x=x, y=y, text="label:N")
    return [area, line, label]


def external_tables(curves: Sequence[ExternalCurve], groups: Sequence[Group]) -> list[Table]:
    """What was kept with the results, used or not, and what is shipped for their tasks."""
    rows = []
    for curve in curves:
        over = [group.label for group in groups if is_about(curve, group)]
        if over or not curve.shipped:
            rows.append(table_row(curve, over))
    title = "External curves: measured by others, under their rules; never ranked"
    return [Table("external-curves", title, COLUMNS, tuple(rows))] if rows else []


def table_row(curve: ExternalCurve, over: Sequence[str]) -> tuple[str, ...]:
    spread = f" ± {number(curve.spread[-1])}" if np.isfinite(curve.spread[-1]) else ""
    first, last = count(curve.step[0]), count(curve.step[-1])
    return (
        curve.name,
        curve.source,
        curve.algorithm or "any",
        curve.environment or "any",
        last if curve.is_end_point else f"{first}–{last}",
        f"{number(curve.mean[-1])}{spread}",
        "; ".join(over) or "nothing: no comparison of this algorithm and environment",
    )
