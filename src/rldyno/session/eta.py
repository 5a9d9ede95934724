"""The time left: estimates of the trials, corrected by how long trials of the same run really took."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from rldyno.records.directory import ResultsDirectory
from rldyno.records.trial_state import trial_state
from rldyno.session.estimate import estimate, load_rates
from rldyno.study.plan import Cell, Plan


@dataclass(frozen=True)
class Ahead:
    """A trial that has not ended."""

    cell: Cell
    estimate_s: float | None
    """The longest it should take; None when nothing is known."""


class Running(NamedTuple):
    elapsed_s: float
    budget_share: float
    """0 to 1."""


@dataclass
class Taken:
    """Trials of one kind that are done."""

    trials: int = 0
    seconds: float = 0.0
    estimated: int = 0
    """Of them, those with an estimate."""
    estimated_taken_s: float = 0.0
    estimate_s: float = 0.0

    def add(self, seconds: float, estimate_s: float | None) -> None:
        self.trials += 1
        self.seconds += seconds
        if estimate_s:
            self.estimated += 1
            self.estimated_taken_s += seconds
            self.estimate_s += estimate_s

    @property
    def ratio(self) -> float:
        """Time taken per estimated time."""
        return self.estimated_taken_s / self.estimate_s if self.estimated else 1.0


class Pace:
    """How long the trials of a run took: each cell, each contestant with each algorithm, and all."""

    def __init__(self) -> None:
        self._taken: dict[object, Taken] = {}

    def add(self, cell: Cell, seconds: float, estimate_s: float | None) -> None:
        for kind in self._kinds(cell):
            self._taken.setdefault(kind, Taken()).add(seconds, estimate_s)

    def expected_s(self, trial: Ahead) -> float | None:
        """The mean of the same cell's trials, in which the corrected estimate counts as one trial more.

        Estimates are upper bounds: a stop rule ends most trials earlier, and other load ends them later.
        """
        cell, narrow, wide = (self._taken.get(kind, Taken()) for kind in self._kinds(trial.cell))
        if trial.estimate_s is None:
            known = next((taken for taken in (cell, narrow, wide) if taken.trials), None)
            return known.seconds / known.trials if known else None
        corrected = trial.estimate_s * (narrow if narrow.estimated else wide).ratio
        return (corrected + cell.seconds) / (1 + cell.trials)

    @staticmethod
    def _kinds(cell: Cell) -> tuple[object, object, object]:
        """From the narrowest to all."""
        return cell, (cell.contestant, cell.algorithm), None


class Eta:
    """Time left until the trials of one round have ended."""

    def __init__(self, trials: Mapping[str, Ahead], jobs: int = 1, pace: Pace | None = None) -> None:
        self._left = dict(trials)
        self._jobs = jobs
        self._pace = pace or Pace()

    def finished(self, trial: str, took_s: float, *, done: bool) -> None:
        """A trial that failed ends early, and shows nothing about the others."""
        ended = self._left.pop(trial, None)
        if ended and done:
            self._pace.add(ended.cell, took_s, ended.estimate_s)

    def remaining_s(self, running: Mapping[str, Running]) -> float | None:
        """None while nothing is known of some trial, and at the end."""
        left = [self._left_of(trial, running.get(name)) for name, trial in self._left.items()]
        known = [seconds for seconds in left if seconds is not None]
        return sum(known) / self._jobs if known and len(known) == len(left) else None

    def _left_of(self, trial: Ahead, running: Running | None) -> float | None:
        """Of a running trial, the nearer its budget, the more its own speed counts."""
        expected = self._pace.expected_s(trial)
        if running is None:
            return expected
        elapsed, share = running
        if share > 0:
            at_this_speed = elapsed / share
            expected = at_this_speed if expected is None else (1 - share) * expected + share * at_this_speed
        return None if expected is None else max(0.0, expected - elapsed)


def trials_ahead(plan: Plan) -> dict[str, Ahead]:
    """Trial → what is expected of it before any has ended."""
    guesses = estimate(plan, load_rates()).guesses
    return {
        trial.id: Ahead(trial.cell, guess.seconds) for trial, guess in zip(plan.trials, guesses, strict=True)
    }


def pace_of(directory: ResultsDirectory, plan: Plan) -> Pace:
    """Of the trials that are done when a run continues."""
    pace = Pace()
    for trial, ahead in trials_ahead(plan).items():
        outcome = trial_state(directory.trial(trial)).outcome
        if outcome and outcome.done and outcome.wall_s:
            pace.add(ahead.cell, outcome.wall_s, ahead.estimate_s)
    return pace
