"""Time of a run by its length, for the chart of break-evens."""

from __future__ import annotations

from typing import Any

import numpy as np

from rldyno.answers.breakeven import courses
from rldyno.answers.groups import Group
from rldyno.report.measures import significant

# Steps for which the time of a run is drawn.
RUN_LENGTHS = np.geomspace(1e3, 1e7, 33)


def run_length_rows(group: Group) -> list[dict[str, Any]]:
    found = courses({row.contestant: group.runs[row.contestant] for row in group.rows}, rng=None)
    return [
        {
            "contestant": course.contestant,
            "x": significant(float(steps)),
            "y": significant(course.seconds(float(steps))),
        }
        for course in found
        for steps in RUN_LENGTHS
    ]
