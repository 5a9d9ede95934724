"""Who overtakes whom, and after how many steps and updates."""

from __future__ import annotations

import numpy as np

from rldyno.answers.breakeven import costs, pairwise
from rldyno.answers.groups import Group
from rldyno.answers.numbers import count
from rldyno.answers.table import SEED
from rldyno.stats.bootstrap import Estimate
from rldyno.typeset import Table


def turns_table(group: Group, name: str) -> Table | None:
    """Of the ranked contestants; None when nobody overtakes anybody."""
    runs = {row.contestant: costs(group.runs[row.contestant]) for row in group.ranked}
    found = pairwise(runs, np.random.default_rng(SEED))
    if not found:
        return None
    return Table(
        name=name,
        title=f"Who overtakes whom, with 95 % intervals: {group.label}",
        columns=("Starts later, runs faster", "Overtakes", "After steps", "After updates"),
        rows=tuple((turn.then, turn.first, length(turn.steps), length(turn.updates)) for turn in found),
    )


def length(estimate: Estimate | None) -> str:
    """`98,000 (61,000–150,000)`."""
    if estimate is None:
        return "–"
    if estimate.low is None or estimate.high is None:
        return count(estimate.point)
    return f"{count(estimate.point)} ({count(estimate.low)}–{count(estimate.high)})"
