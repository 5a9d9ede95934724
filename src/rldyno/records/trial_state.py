"""The state of a trial, from its files and its lock alone."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from rldyno.errors import Problem
from rldyno.records.attempts import TRIAL_LOCK, leftovers
from rldyno.records.files import read_json
from rldyno.records.locks import lock_holder
from rldyno.records.outcome import Outcome
from rldyno.records.status import DONE, ENDED, FAILED, INTERRUPTED, PENDING, RUNNING
from rldyno_rig import schema
from rldyno_rig.trial_file import TrialFile


@dataclass(frozen=True)
class TrialState:
    name: str
    outcome: Outcome | None = None
    """Only of a trial that has ended."""
    note: str = ""
    """What a person should know, for example that a file is damaged."""

    @property
    def done(self) -> bool:
        return self.name == DONE

    @property
    def failed(self) -> bool:
        return self.name == FAILED

    @property
    def running(self) -> bool:
        return self.name == RUNNING

    @property
    def ended(self) -> bool:
        return self.name in ENDED


def trial_state(trial_dir: Path) -> TrialState:
    """From the files and the lock alone, so that it holds after any crash."""
    if lock_holder(trial_dir / TRIAL_LOCK) is not None:
        return TrialState(RUNNING)
    if (trial_dir / schema.OUTCOME_FILE).exists():
        try:
            outcome = read_outcome(trial_dir)
        except Problem as problem:
            return TrialState(INTERRUPTED, note=problem.message)
        return TrialState(outcome.status, outcome)
    return TrialState(INTERRUPTED if leftovers(trial_dir) else PENDING)


def read_trial(trial_dir: Path) -> TrialFile:
    """trial.json; a Problem when it is missing or damaged."""
    path = trial_dir / schema.TRIAL_FILE
    try:
        return TrialFile.from_json(read_json(path))
    except (KeyError, TypeError, AttributeError) as error:
        raise Problem(
            f"{path} is damaged: {error!r}", fix="delete the file and run its study again", code=1
        ) from error


def read_outcome(directory: Path) -> Outcome:
    """outcome.json of a trial or of one of its attempts; a Problem when it is missing or damaged."""
    return Outcome.from_json(read_json(directory / schema.OUTCOME_FILE))


def log_tail(path: Path, lines: int = 20) -> str:
    """The last lines of a log, safe to print whatever the worker wrote there."""
    try:
        with path.open("rb") as stream:
            size = stream.seek(0, os.SEEK_END)
            stream.seek(max(0, size - 16_384))
            text = stream.read().decode("utf-8", errors="replace")
    except OSError:
        return ""
    printable = "".join(c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in text)
    return "\n".join(line[:500].rstrip() for line in printable.rstrip().split("\n")[-lines:])
