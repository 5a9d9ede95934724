"""Attempts of a trial: the one that counts lies in the trial's directory, the others in attempts/<n>/.

Files are moved one by one, so a move goes through a folder whose name says what it is for. A process that
is killed meanwhile leaves that folder, and the next one finishes the move: files of two attempts never mix.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from rldyno.records.files import is_temporary, refuse_link
from rldyno.records.locks import LockedError, locked
from rldyno_rig import schema

ATTEMPTS = "attempts"
TRIAL_LOCK = "trial.lock"
_LEAVING, _RETURNING = ".leaving", ".returning"
"""Folders in attempts/: of an attempt that is put aside, of one that is made the one that counts."""


def leftovers(trial_dir: Path) -> list[Path]:
    """What an attempt has written, the outcome first: without it the trial has not ended."""
    keep = {schema.TRIAL_FILE, TRIAL_LOCK, ATTEMPTS}
    if not trial_dir.is_dir():
        return []
    files = [entry for entry in trial_dir.iterdir() if entry.name not in keep and not is_temporary(entry)]
    return sorted(files, key=lambda entry: (entry.name != schema.OUTCOME_FILE, entry.name))


def next_attempt(trial_dir: Path) -> int:
    """Number of the attempt about to start, from 1."""
    attempts = trial_dir / ATTEMPTS
    if not attempts.is_dir():
        return 1
    return 1 + max((int(entry.name) for entry in attempts.iterdir() if entry.name.isdigit()), default=0)


def put_aside(trial_dir: Path) -> int:
    """Move what an earlier attempt left into attempts/<n>/; return the number of the one about to start."""
    finish_move(trial_dir)
    if trial_dir.is_dir():
        for entry in trial_dir.iterdir():
            if is_temporary(entry):
                entry.unlink()
    if leftovers(trial_dir):
        (trial_dir / ATTEMPTS / _LEAVING).mkdir(parents=True)
        finish_move(trial_dir)
    return next_attempt(trial_dir)


def restore(trial_dir: Path, attempt: int) -> None:
    """Make an attempt that was put aside the one that counts; the current one is put aside."""
    put_aside(trial_dir)
    folder = trial_dir / ATTEMPTS / str(attempt)
    refuse_link(folder)
    folder.rename(folder.with_name(_RETURNING))
    finish_move(trial_dir)


def finish_move(trial_dir: Path) -> None:
    """Finish what a process that was killed had begun; nothing where none was."""
    leaving, returning = (trial_dir / ATTEMPTS / name for name in (_LEAVING, _RETURNING))
    for folder in (trial_dir / ATTEMPTS, leaving, returning):
        refuse_link(folder)  # files would be moved there, or taken from there
    if leaving.is_dir():
        for file in leftovers(trial_dir):
            file.replace(leaving / file.name)
        leaving.rename(leaving.with_name(str(next_attempt(trial_dir))))
    if returning.is_dir():
        # The outcome comes last: until then the trial has not ended.
        for file in sorted(returning.iterdir(), key=lambda entry: entry.name == schema.OUTCOME_FILE):
            file.replace(trial_dir / file.name)
        returning.rmdir()


def finish_moves(trials: Path) -> None:
    """Of all trials of a results directory. One that runs, as a job of a cluster, finishes its own."""
    for folder in (*trials.glob(f"*/{ATTEMPTS}/{_LEAVING}"), *trials.glob(f"*/{ATTEMPTS}/{_RETURNING}")):
        with contextlib.suppress(LockedError), locked(folder.parent.parent / TRIAL_LOCK):
            finish_move(folder.parent.parent)
