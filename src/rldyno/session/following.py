"""Follows the trials while they run: shows them, gives them their conditions, learns from their outcomes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from rldyno.launch.launcher import EndedTrial, PreparedTrial, RunningTrial
from rldyno.records.calibrations import collect_calibrations, with_outcomes, write_calibrations
from rldyno.records.directory import ResultsDirectory
from rldyno.records.manifest import Manifest
from rldyno.records.outcome import Outcome
from rldyno.records.trial_state import TrialState, trial_state
from rldyno.session.estimate import remember
from rldyno.session.eta import Eta, Running
from rldyno.session.preparation import with_conditions
from rldyno.session.progress import Display, Snapshot, duration, read_progress
from rldyno_rig.trial_file import Conditions


class KnownConditions:
    """What trials of this run should know of the machine. Grows with every outcome."""

    def __init__(self, directory: ResultsDirectory, manifest: Manifest) -> None:
        self._root = directory.root
        self._host = manifest.host
        self._idle_cpu_percent = manifest.idle_cpu_percent
        self._best = collect_calibrations(directory.root)

    def now(self) -> Conditions:
        return Conditions(self._host, self._idle_cpu_percent, dict(self._best))

    def learn(self, outcome: Outcome) -> None:
        best = with_outcomes(self._best, [outcome])
        if best != self._best:
            self._best = best
            write_calibrations(self._root, best)


@dataclass
class Counts:
    total: int
    done: int = 0
    failed: int = 0

    @property
    def ended(self) -> int:
        return self.done + self.failed


class Follower:
    """The `Watcher` of a session."""

    def __init__(self, display: Display, total: int, eta: Eta, conditions: KnownConditions) -> None:
        self._display = display
        self._counts = Counts(total)
        self._eta = eta
        self._conditions = conditions
        self._started = time.monotonic()

    def starting(self, trial: PreparedTrial) -> PreparedTrial:
        return with_conditions(trial, self._conditions.now())

    def tick(self, running: Sequence[RunningTrial]) -> None:
        queued = sum(entry.queued for entry in running)
        running = [entry for entry in running if not entry.queued]
        trials = [entry.trial for entry in running]
        progress = {trial.id: read_progress(trial.directory, trial.file.budget) for trial in trials}
        now = time.monotonic()
        spent = {
            entry.trial.id: Running(now - entry.started, progress[entry.trial.id].budget_share or 0.0)
            for entry in running
        }
        self._display.update(
            Snapshot(
                done=self._counts.done,
                failed=self._counts.failed,
                total=self._counts.total,
                running=progress,
                elapsed_s=now - self._started,
                eta_s=self._eta.remaining_s(spent),
                queued=queued,
            )
        )

    def ended(self, trial: EndedTrial) -> None:
        state = trial_state(trial.trial.directory)
        self._eta.finished(trial.trial.id, trial.seconds, done=state.done)
        if state.done:
            self._counts.done += 1
        else:
            self._counts.failed += 1
        if state.outcome:
            self._conditions.learn(state.outcome)
            remember(trial.trial.file, state.outcome)
        counted = f"[{self._counts.ended}/{self._counts.total}]"
        self._display.print_line(f"{counted} {trial.trial.id}: {ending_sentence(trial, state)}")


def ending_sentence(trial: EndedTrial, state: TrialState) -> str:
    outcome = state.outcome
    if outcome is None:
        return f"ended without an outcome: {trial.error_text or trial.exit_code}"
    return outcome_sentence(outcome)


def outcome_sentence(outcome: Outcome) -> str:
    if outcome.done:
        return f"done ({outcome.reason}) after {duration(outcome.wall_s or 0.0)}"
    return f"failed ({outcome.reason}): {outcome.message}"
