"""Whether an open loop learns like the closed division: the tests of learning parity on both sets of runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rldyno.answers.learning import LearningParity, concluded, learning_tests, mean_return
from rldyno.answers.runs import Runs
from rldyno.records.files import Json
from rldyno.stats.equivalence import DIFFERENT, EQUAL
from rldyno.stats.significance import holm
from rldyno_rig.contestant import Contestant
from rldyno_rig.open.curve import Curve, Goal

COLUMNS = {"seed": 0, "steps": 1, "threshold_reached": 2, "threshold_steps": 3}


@dataclass(frozen=True)
class LearningVerdict:
    """Of one open form beside a contestant of the closed division."""

    framework: str
    parity: LearningParity
    open_steps: tuple[int | None, ...]
    """To the goal, by seed; None: never."""
    closed_steps: tuple[int | None, ...]

    @property
    def words(self) -> str:
        said = {EQUAL: "learns like", DIFFERENT: "does not learn like"}
        words = said.get(self.parity.state, "too few seeds to tell whether it learns like")
        more = self.parity.more_seeds
        hint = f" (about {more} more are needed)" if more else ""
        return f"{self.framework}: {words} {self.parity.reference}{hint}: {self.parity.detail}"

    def to_json(self) -> Json:
        return {
            "framework": self.framework,
            "closed": self.parity.reference,
            "state": self.parity.state,
            "detail": self.parity.detail,
            "open_steps": list(self.open_steps),
            "closed_steps": list(self.closed_steps),
        }


def verdict(
    framework: str,
    mine: Sequence[Curve],
    theirs: Sequence[Curve],
    contestant: Contestant,
    goal: Goal,
    reward: float,
) -> LearningVerdict:
    """`mine` are the open runs, `theirs` those of `contestant`; both by seed, 0, 1 …"""
    runs, base = runs_of(mine, goal, reward), runs_of(theirs, goal, reward)
    tests = learning_tests(runs, base, *return_areas((mine, theirs)))
    chances = holm([test.p_different for test in tests.values()])
    states = {name: test.state(chance) for (name, test), chance in zip(tests.items(), chances, strict=True)}
    steps = (tuple(steps_to(curves, goal, reward)) for curves in (mine, theirs))
    return LearningVerdict(framework, concluded(str(contestant), tests, states), *steps)


def steps_to(curves: Sequence[Curve], goal: Goal, reward: float) -> list[int | None]:
    return [goal.reached(curve, reward) for curve in curves]


def runs_of(curves: Sequence[Curve], goal: Goal, reward: float) -> Runs:
    found = steps_to(curves, goal, reward)
    rows = [
        (seed, curve.step[-1], at is not None, math.nan if at is None else at)
        for seed, (curve, at) in enumerate(zip(curves, found, strict=True))
    ]
    return Runs(tuple(str(seed) for seed in range(len(rows))), COLUMNS, np.array(rows, np.float64))


def return_areas(sets: Sequence[Sequence[Curve]]) -> list[Mapping[int, float]]:
    """As `learning.return_areas`: mean length of an episode over the first steps, that every run has taken.

    Every step has the same reward in the open division's environments: lengths are returns.
    """
    every = [curve for curves in sets for curve in curves]
    lengths = np.concatenate([[mean for _, mean, _ in curve.means()] for curve in every])
    counts = np.concatenate([[count for _, _, count in curve.means()] for curve in every]).astype(int)
    low, high = np.quantile(np.repeat(lengths, counts), [0.05, 0.95])
    if not high > low:
        return [{} for _ in sets]
    horizon = min(curve.step[-1] for curve in every)
    return [
        {seed: (area(curve, horizon) - low) / (high - low) for seed, curve in enumerate(curves)}
        for curves in sets
    ]


def area(curve: Curve, horizon: int) -> float:
    steps, means, _ = (np.array(part, np.float64) for part in zip(*curve.means(), strict=True))
    return mean_return(steps, means, horizon)
