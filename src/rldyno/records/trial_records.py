"""The records of one trial, checked: what cannot be trusted is named, and the trial does not count.

Only the standard library is imported here: the trial process reads records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from rldyno.errors import Problem
from rldyno.records.files import read_json
from rldyno.records.outcome import Outcome
from rldyno.records.seal import altered_files, read_record
from rldyno.records.trial_id import trial_id
from rldyno.records.typed import checks_of, damaged, typed
from rldyno_rig import schema
from rldyno_rig.facts_file import WorkerFacts
from rldyno_rig.hyper import tuples
from rldyno_rig.trial_file import TrialFile

Record = TypeVar("Record")
MOST_PROCESSORS = 4096
"""Cores of a worker, and workers of a trial."""


@dataclass(frozen=True)
class TrialRecords:
    file: TrialFile | None
    """None where it is missing or damaged."""
    facts: WorkerFacts | None
    outcome: Outcome | None
    """None of a trial that has not ended, or whose records have flaws."""
    flaws: tuple[str, ...]
    """Why the records do not count, one sentence each: the trial has to run again."""


def read_trial(trial_dir: Path) -> TrialFile:
    """trial.json; a Problem when it is missing or damaged."""
    path = trial_dir / schema.TRIAL_FILE
    file = typed(path, read_record(path), TrialFile.from_json)
    if wrong := _impossible(file):
        raise damaged(path, f"`{wrong}` has a value that no trial can have")
    return file


def _impossible(file: TrialFile) -> str | None:
    """What no lab writes, and what starting a trial would trip over."""
    bounds = {
        "cores": (1, MOST_PROCESSORS),
        "workers": (1, MOST_PROCESSORS),
        "sample_hz": (1e-3, 1e4),
        "hang_timeout_s": (0, 1e9),
    }
    for name, (least, most) in bounds.items():
        if not least <= getattr(file, name) <= most:
            return name
    startable = all(
        name and "=" not in name and "\0" not in name + value for name, value in file.variables.items()
    )
    return None if startable else "variables"


def read_outcome(directory: Path) -> Outcome:
    """outcome.json of a trial or of one of its attempts; a Problem when it is missing or damaged."""
    path = directory / schema.OUTCOME_FILE
    return typed(path, read_record(path), Outcome.from_json)


def read_facts(trial_dir: Path) -> WorkerFacts:
    """facts.json; a Problem when it is missing or damaged."""
    path = trial_dir / schema.FACTS_FILE
    return typed(path, read_json(path), WorkerFacts.from_json)


def read_trial_records(home: Path) -> TrialRecords:
    """Of a trial's directory, whose name is the trial's id."""
    flaws: list[str] = []
    file = _read(home / schema.TRIAL_FILE, read_trial, flaws)
    if file is not None and (wrong := _wrong_hyper(file)):
        flaws.append(f"{home / schema.TRIAL_FILE} is damaged: hyper-parameter `{wrong}` has a wrong value")
        file = None
    facts = _read(home / schema.FACTS_FILE, read_facts, flaws)
    outcome = _read(home / schema.OUTCOME_FILE, read_outcome, flaws)
    if outcome is not None:
        flaws += _mix_ups(home, file, outcome)
        flaws += [f"{home / flaw}" for flaw in altered_files(home, outcome.files)]
    return TrialRecords(file, facts, None if flaws else outcome, tuple(flaws))


def _read(path: Path, read: Callable[[Path], Record], flaws: list[str]) -> Record | None:
    """None of a file that is not there; what is damaged is noted."""
    try:
        return read(path.parent)
    except Problem as problem:
        if path.is_symlink() or path.exists():
            flaws.append(problem.message)
        return None


def _wrong_hyper(file: TrialFile) -> str | None:
    """The first hyper-parameter that holds no value of its kind. Fields of other versions are not known."""
    from rldyno_rig.algorithms import LEARNERS  # NumPy, which the trial process does not need

    learner = LEARNERS.get(file.algorithm)
    checks = {} if learner is None else checks_of(learner.hyper)
    return next(
        (
            name[:100]
            for name, value in file.hyper.items()
            if name in checks and not checks[name](tuples(value))
        ),
        None,
    )


def _mix_ups(home: Path, file: TrialFile | None, outcome: Outcome) -> Iterator[str]:
    """Records of another trial, and values that no trial can have."""
    if outcome.trial and outcome.trial != home.name:
        yield f"{home / schema.OUTCOME_FILE} is of another trial, {outcome.trial[:100]}"
    if file is None:
        yield f"{home / schema.TRIAL_FILE} is missing or damaged"
    elif file.trial != home.name or (outcome.files and trial_id(file) != home.name):
        yield f"{home / schema.TRIAL_FILE} describes another trial than the directory's name"
    result = outcome.result
    counts = [outcome.wall_s, outcome.cpu_s, outcome.peak_rss_bytes, outcome.attempt]
    if result is not None:
        counts += [result.steps, result.episodes, result.updates, result.train_ns, result.train_start_ns]
        counts += [*result.startup_ns.values(), *result.phases_ns.values()]
    if any(count is not None and count < 0 for count in counts):
        yield f"{home / schema.OUTCOME_FILE} has a negative time or count"
