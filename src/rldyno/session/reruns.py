"""`rldyno run --max-noise`: trials that were disturbed too much run again; the quietest attempt counts."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rldyno.errors import Problem
from rldyno.launch.launcher import DetachedError, PreparedTrial
from rldyno.machine.noise import rescored
from rldyno.records.attempts import ATTEMPTS, put_aside, restore
from rldyno.records.calibrations import best_calibrations
from rldyno.records.trial_records import read_outcome
from rldyno.records.trial_state import trial_state
from rldyno.session.preparation import write_trial
from rldyno_rig.schema import OUTCOME_FILE

if TYPE_CHECKING:
    from rich.console import Console

ATTEMPTS_AT_MOST = 3
SHOWN = 5
Launch = Callable[[list[PreparedTrial]], None]


@dataclass(frozen=True)
class NoiseLimit:
    score: float
    attempts: int = ATTEMPTS_AT_MOST
    """Finished attempts per trial, those of earlier runs included."""


@dataclass(frozen=True)
class Attempts:
    """The finished attempts of a trial, by noise score."""

    current: float | None
    """Of the one that counts now; None if that is not done, or has no score."""
    aside: dict[int, float]
    """Number of an attempt that was put aside → its score."""

    @property
    def count(self) -> int:
        return len(self.aside) + (self.current is not None)


def run_until_quiet(
    trials: Iterable[PreparedTrial], limit: NoiseLimit, launch: Launch, console: Console
) -> None:
    """Repeat in rounds what is noisier than the limit: the disturbance may have ended by the next round.

    However this ends, the quietest finished attempt of every trial counts. What runs is what this session
    prepared: an old trial.json may name an interpreter of somebody else's.
    """
    trials = list(trials)
    directories = [trial.directory for trial in trials]
    to_settle = directories
    try:
        while noisy := [trial for trial in trials if is_worth_repeating(trial.directory, limit)]:
            noun = "trial was" if len(noisy) == 1 else "trials were"
            console.print(f"{len(noisy)} {noun} noisier than {limit.score:g}: running again", highlight=False)
            for trial in noisy:
                put_aside(trial.directory)
                write_trial(trial.directory, trial.file)
            launch(noisy)
    except DetachedError:
        to_settle = []  # jobs have them; the session that goes on will
        raise
    finally:
        for directory in to_settle:
            settle(directory)
    _summarise(directories, limit, console)


def is_worth_repeating(trial_dir: Path, limit: NoiseLimit) -> bool:
    found = read_attempts(trial_dir)
    return found.current is not None and found.current > limit.score and found.count < limit.attempts


def settle(trial_dir: Path) -> None:
    """Let the quietest finished attempt count."""
    found = read_attempts(trial_dir)
    quietest = min(found.aside, key=lambda attempt: found.aside[attempt], default=None)
    if quietest is None or trial_state(trial_dir).running:
        return
    if found.current is None or found.aside[quietest] < found.current:
        restore(trial_dir, quietest)


def read_attempts(trial_dir: Path) -> Attempts:
    best = best_calibrations(trial_dir.parent.parent)
    aside = {}
    for path in trial_dir.glob(f"{ATTEMPTS}/*/{OUTCOME_FILE}"):
        score = _score(path.parent, best)
        if score is not None and path.parent.name.isdigit():
            aside[int(path.parent.name)] = score
    return Attempts(_score(trial_dir, best), aside)


def _score(directory: Path, best: Mapping[str, int]) -> float | None:
    """Of a finished attempt, as the shortest calibration of the whole run shows it."""
    with contextlib.suppress(Problem):
        outcome = read_outcome(directory)
        if outcome.done and outcome.noise:
            return rescored(outcome.noise, best).score
    return None


def _summarise(directories: Iterable[Path], limit: NoiseLimit, console: Console) -> None:
    found = {directory.name: read_attempts(directory) for directory in directories}
    repeated = sum(bool(attempts.aside) for attempts in found.values())
    noisy = {
        name: a.current for name, a in found.items() if a.current is not None and a.current > limit.score
    }
    if repeated:
        nouns = "trial was" if repeated == 1 else "trials were"
        console.print(f"{repeated} {nouns} run more than once; earlier attempts are kept", highlight=False)
    lines = [
        f"noise: {name} stayed above {limit.score:g} in {found[name].count} attempts; "
        f"the quietest counts, with {score:.2g}"
        for name, score in sorted(noisy.items(), key=lambda item: -item[1])
    ]
    if len(lines) > SHOWN:
        lines[SHOWN:] = [f"noise: {len(lines) - SHOWN} more trials stayed above it, with lower scores"]
    for line in lines:
        console.print(line, style="yellow", markup=False, highlight=False, soft_wrap=True)
