"""Who overtakes whom, and after how many steps and updates."""

from __future__ import annotations

import math

from rldyno.answers.advice import group_courses
from rldyno.answers.breakeven import pairwise
from rldyno.answers.groups import Group
from rldyno.stats.bootstrap import Estimate
from rldyno.text.numbers import count
from rldyno.text.tables import Table


def turns_table(group: Group, name: str) -> Table | None:
    """Every pair of the ranked contestants; None with fewer than two that have learned."""
    found = pairwise(group_courses(group))
    if not found:
        return None
    return Table(
        name=name,
        title=f"Who overtakes whom, with 95 % intervals: {group.label}",
        columns=("Starts later", "Overtakes", "After steps", "After updates"),
        rows=tuple((turn.then, turn.first, length(turn.steps), length(turn.updates)) for turn in found),
    )


def length(estimate: Estimate | None) -> str:
    """`98,000 (61,000–150,000)`, `never (61,000–∞)`, `never`."""
    if estimate is None:
        return "–"
    point = "never" if math.isinf(estimate.point) else count(estimate.point)
    if estimate.low is None or estimate.high is None or math.isinf(estimate.low):
        return point
    return f"{point} ({count(estimate.low)}–{count(estimate.high)})"
