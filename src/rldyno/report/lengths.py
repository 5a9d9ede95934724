"""Who is done first, by the length of the run: start-up against speed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from rldyno.answers.numbers import number
from rldyno.answers.table import Group
from rldyno.report.measures import significant

# Steps for which the time of a run is drawn.
RUN_LENGTHS = np.geomspace(1e3, 1e7, 33)


@dataclass(frozen=True)
class Pace:
    """A run of N steps takes startup_s + N · step_s."""

    contestant: str
    startup_s: float
    step_s: float

    def seconds(self, steps: float) -> float:
        return self.startup_s + steps * self.step_s


@dataclass(frozen=True)
class Lead:
    """From `steps` on this contestant is done first."""

    contestant: str
    steps: float
    seconds: float


def paces(group: Group) -> list[Pace]:
    """From the medians of each contestant's runs."""
    done = group.trials.filter(pl.col("status") == "done")
    medians = done.group_by("contestant").agg(pl.col("startup_s", "steps_per_s").median()).drop_nulls()
    found = {
        name: Pace(name, startup, 1 / speed) for name, startup, speed in medians.iter_rows() if speed > 0
    }
    return [found[row.contestant] for row in group.rows if row.contestant in found]


def leads(runners: Sequence[Pace]) -> list[Lead]:
    """The lower envelope of the lines: who leads from 0 steps on, and every one who takes the lead later."""
    leader = min(runners, key=lambda pace: (pace.startup_s, pace.step_s), default=None)
    found: list[Lead] = []
    steps = 0.0
    while leader is not None:
        found.append(Lead(leader.contestant, steps, leader.seconds(steps)))
        ahead = leader
        meetings = [
            ((pace.startup_s - ahead.startup_s) / (ahead.step_s - pace.step_s), pace)
            for pace in runners
            if pace.step_s < ahead.step_s
        ]
        steps, leader = min(
            meetings, key=lambda meeting: (meeting[0], meeting[1].step_s), default=(0.0, None)
        )
    return found


def leads_sentence(group: Group) -> str | None:
    """Among the ranked; names in backticks. None when there is nothing to compare."""
    ranked = {row.contestant for row in group.ranked}
    runners = [pace for pace in paces(group) if pace.contestant in ranked]
    if len(runners) < 2:
        return None
    first, *later = leads(runners)
    if not later:
        return f"`{first.contestant}` is done first however long the run is."
    turns = [
        f"`{lead.contestant}` from {rounded(lead.steps)} steps ({number(lead.seconds)} s) on"
        for lead in later
    ]
    return f"`{first.contestant}` is done first in short runs, {', '.join(turns)}."


def rounded(steps: float) -> str:
    """Two digits: a crossing of two medians is no better known."""
    return number(float(f"{steps:.2g}"), 0)


def run_length_rows(group: Group) -> list[dict[str, Any]]:
    return [
        {
            "contestant": pace.contestant,
            "x": significant(float(steps)),
            "y": significant(pace.seconds(float(steps))),
        }
        for pace in paces(group)
        for steps in RUN_LENGTHS
    ]
