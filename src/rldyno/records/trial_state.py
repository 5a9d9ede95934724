"""The state of a trial, from its files and its lock alone, and its earlier attempts."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from rldyno.errors import Problem
from rldyno.records.files import read_json
from rldyno.records.locks import lock_holder
from rldyno.records.outcome import Outcome
from rldyno.records.status import DONE, ENDED, FAILED, INTERRUPTED, PENDING, RUNNING
from rldyno_rig import schema
from rldyno_rig.trial_file import TrialFile

TRIAL_LOCK = "trial.lock"
ATTEMPTS = "attempts"


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


def leftovers(trial_dir: Path) -> list[Path]:
    """What an attempt has written, the outcome first."""
    keep = {schema.TRIAL_FILE, TRIAL_LOCK, ATTEMPTS}
    if not trial_dir.is_dir():
        return []
    files = [entry for entry in trial_dir.iterdir() if entry.name not in keep]
    return sorted(files, key=lambda entry: (entry.name != schema.OUTCOME_FILE, entry.name))


def next_attempt(trial_dir: Path) -> int:
    """Number of the attempt about to start, from 1."""
    attempts = trial_dir / ATTEMPTS
    if not attempts.is_dir():
        return 1
    return 1 + max((int(entry.name) for entry in attempts.iterdir() if entry.name.isdigit()), default=0)


def put_aside(trial_dir: Path) -> int:
    """Move what an earlier attempt left into attempts/<n>/; return the number of the one about to start."""
    attempt = next_attempt(trial_dir)
    files = leftovers(trial_dir)
    if not files:
        return attempt
    folder = trial_dir / ATTEMPTS / str(attempt)
    folder.mkdir(parents=True)
    for file in files:
        file.replace(folder / file.name)
    return attempt + 1


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
