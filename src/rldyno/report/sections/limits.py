"""How far each contestant is from what the machine could do."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any

from rldyno.answers.groups import Group
from rldyno.answers.limits import Distance
from rldyno.limits.disturbance import warnings
from rldyno.records.machine_limits import StudyLimits
from rldyno.report.charts import draw_intervals
from rldyno.report.libraries import alt
from rldyno.report.material import Material
from rldyno.report.parts import ratio_axis
from rldyno.report.section import Chart, Section, significant
from rldyno.report.theme import AltairChart, Theme
from rldyno.results.load import Results
from rldyno.stats.estimates import RANGE
from rldyno.text.numbers import factor, number, span
from rldyno.text.tables import Table

BOUND_WORDS = {"arithmetic": "arithmetic", "memory": "memory traffic", "transfer": "copies to the device"}
CAPTION = (
    "Geometric means over seeds with 95 % intervals, dashed where they are the range of too few runs; "
    "on a logarithmic axis, 1 is the limit. Hollow points are shown but not ranked."
)
COLUMNS = (
    "Contestant",
    "Comparison",
    "Update, µs",
    "Floor, µs",
    "Bound by",
    "Times the floor",
    "Speed, % of the environments alone",
)


Axes = tuple[tuple[str, object], ...]


def by_group(material: Material) -> dict[Axes, list[Distance]]:
    """Axes of the group → its contestants, nearest to the limit first; empty where no limits are known.

    By axes, not by label: two comparisons of a damaged directory may have the same.
    """
    found: dict[Axes, list[Distance]] = {}
    for distance in material.analysis.distances:
        found.setdefault(key_of(distance.axes), []).append(distance)
    return found


def key_of(axes: Mapping[str, object]) -> Axes:
    return tuple(axes.items())


def charts(material: Material) -> Any:
    found = by_group(material)
    return material.panels(
        lambda place: [
            Chart(
                "distance",
                "Distance from the limit",
                CAPTION,
                draw_distance,
                distance_rows(
                    found.get(key_of(place.group.axes), ()), {row.contestant for row in place.group.ranked}
                ),
            )
        ],
        only_recorded=True,
    )


def distance_rows(found: Sequence[Distance], ranked: Container[str]) -> list[dict[str, Any]]:
    return [
        {
            "contestant": one.contestant,
            "order": order,
            "ranked": one.contestant in ranked,
            "value": significant(one.multiple.point),
            "low": None if one.multiple.low is None else significant(one.multiple.low),
            "high": None if one.multiple.high is None else significant(one.multiple.high),
            "range": one.multiple.kind == RANGE,
            "text": f"{factor(one.multiple.point)}, bound by {BOUND_WORDS.get(one.bound, one.bound)}",
        }
        for order, one in enumerate(found)
    ]


def draw_distance(theme: Theme, title: str) -> AltairChart:
    """An update as a multiple of the least time that the machine allows for it, with its 95 % interval."""
    scale = alt.Scale(type="log", domainMin=1)
    return draw_intervals(
        theme, title, "one update, times its floor", ratio_axis(), scale, at_least=2, legend=False
    )


def tables(material: Material) -> list[Table]:
    """None where the machine's limits were not measured."""
    found = by_group(material)
    rows = tuple(
        (one.contestant, group.label, *distance_cells(one), share_of_environment(group, one.contestant))
        for group in material.groups
        for one in found.get(key_of(group.axes), ())
    )
    return [Table("limits", "Distance from the limit of the machine", COLUMNS, rows)] if rows else []


def distance_cells(one: Distance) -> tuple[str, ...]:
    bounds = span(one.multiple)
    return (
        number(one.update_us.point),
        number(one.floor_us),
        BOUND_WORDS.get(one.bound, one.bound),
        f"{number(one.multiple.point)}×" + (f" ({bounds})" if bounds else ""),
    )


def share_of_environment(group: Group, contestant: str) -> str:
    """No contestant can step faster than its environments do without an agent."""
    runs = group.runs[contestant]
    speed, alone = runs.middle("steps_per_s"), runs.middle("environment_alone_steps_per_s")
    return "–" if speed is None or not alone else number(100 * speed / alone)


def low_limits(results: Results) -> list[str]:
    """Which limits were measured on a busy machine, and what to do about it."""
    limits = results.manifest.limits or StudyLimits()
    lines = warnings(limits.devices, limits.environments)
    return [
        f"{line[0].upper()}{line[1:]}. While the machine is idle, rldyno run of this study measures it again"
        for line in lines
    ]


SECTION = Section(
    id="limits",
    order=120,
    title="Distance from the limit",
    about="an update as a multiple of the least time that this machine allows",
    short="Limits",
    charts=charts,
    tables=tables,
    context=lambda material: {"low_limits": low_limits(material.results)},
    legend=True,
)
