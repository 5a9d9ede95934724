"""The state of a trial, from its files and its lock alone."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path

from rldyno.records.attempts import TRIAL_LOCK, leftovers
from rldyno.records.files import open_record
from rldyno.records.locks import lock_holder
from rldyno.records.outcome import Outcome
from rldyno.records.status import DONE, ENDED, FAILED, INTERRUPTED, PENDING, RUNNING
from rldyno.records.trial_records import read_trial_records
from rldyno_rig import schema


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
        records = read_trial_records(trial_dir)
        if records.outcome is not None:
            return TrialState(records.outcome.status, records.outcome)
        first, *others = records.flaws
        return TrialState(INTERRUPTED, note=first + (f"; {len(others)} more flaws" if others else ""))
    return TrialState(INTERRUPTED if leftovers(trial_dir) else PENDING)


def log_tail(path: Path, lines: int = 20) -> str:
    """The last lines of a log, safe to print whatever the worker wrote there."""
    try:
        with open_record(path, math.inf) as stream:  # however much a worker has printed
            size = stream.seek(0, os.SEEK_END)
            stream.seek(max(0, size - 16_384))
            text = stream.read().decode("utf-8", errors="replace")
    except OSError:
        return ""
    printable = "".join(c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in text)
    return "\n".join(line[:500].rstrip() for line in printable.rstrip().split("\n")[-lines:])
