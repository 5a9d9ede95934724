"""Time of a run by its length, start-up + steps × seconds per step, for the chart of break-evens."""

from __future__ import annotations

from typing import Any

import numpy as np

from rldyno.answers.breakeven import costs, typical
from rldyno.answers.groups import Group
from rldyno.report.measures import significant

# Steps for which the time of a run is drawn.
RUN_LENGTHS = np.geomspace(1e3, 1e7, 33)


def run_length_rows(group: Group) -> list[dict[str, Any]]:
    rows = []
    for row in group.rows:
        runs = costs(group.runs[row.contestant])
        if len(runs):
            startup_s, step_s, _ = typical(runs)
            rows += [
                {
                    "contestant": row.contestant,
                    "x": significant(float(steps)),
                    "y": significant(float(startup_s + steps * step_s)),
                }
                for steps in RUN_LENGTHS
            ]
    return rows
