"""How far each contestant is from what the machine could do, as the report shows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rldyno.answers.groups import Group
from rldyno.answers.limits import Distance, distances
from rldyno.limits.disturbance import warnings
from rldyno.report.measures import significant
from rldyno.results.load import Results
from rldyno.text.numbers import factor, number, span
from rldyno.text.tables import Table

Json = dict[str, Any]
BOUND_WORDS = {"arithmetic": "arithmetic", "memory": "memory traffic", "transfer": "copies to the device"}


def distances_by_group(results: Results, groups: Sequence[Group]) -> dict[str, list[Distance]]:
    """Label of the group → its contestants, nearest to the limit first; empty where no limits are known."""
    found: dict[str, list[Distance]] = {}
    labels = {key_of(group.axes): group.label for group in groups}
    for distance in distances(results):
        found.setdefault(labels[key_of(distance.axes)], []).append(distance)
    return found


def low_limits(results: Results) -> list[str]:
    """Which limits were measured on a busy machine, and what to do about it."""
    limits = results.manifest.get("limits") or {}
    lines = warnings(limits.get("devices") or (), limits.get("environments") or ())
    return [
        f"{line[0].upper()}{line[1:]}. When the machine is quiet, rldyno run of this study measures it again"
        for line in lines
    ]


def key_of(axes: Mapping[str, object]) -> tuple[object, ...]:
    return tuple(axes.items())


def distance_rows(found: Sequence[Distance]) -> list[Json]:
    """Rows of `charts.distance`."""
    return [
        {
            "contestant": one.contestant,
            "order": order,
            "value": significant(one.multiple.point),
            "low": None if one.multiple.low is None else significant(one.multiple.low),
            "high": None if one.multiple.high is None else significant(one.multiple.high),
            "text": f"{factor(one.multiple.point)}, bound by {BOUND_WORDS.get(one.bound, one.bound)}",
        }
        for order, one in enumerate(found)
    ]


def limits_table(found: Mapping[str, Sequence[Distance]], groups: Sequence[Group]) -> Table | None:
    """None where the machine's limits were not measured."""
    rows = [
        (one.contestant, group.label, *distance_cells(one), share_of_environment(group, one.contestant))
        for group in groups
        for one in found.get(group.label, ())
    ]
    if not rows:
        return None
    return Table(
        name="limits",
        title="Distance from the limit of the machine",
        columns=(
            "Contestant",
            "Comparison",
            "Update, µs",
            "Floor, µs",
            "Bound by",
            "Times the floor",
            "Speed, % of the environments alone",
        ),
        rows=tuple(rows),
    )


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
