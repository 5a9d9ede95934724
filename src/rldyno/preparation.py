"""A results directory made ready: held by one lab, writable, with the files that its trials start from."""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from rich.markup import escape

from rldyno import records
from rldyno.errors import Problem
from rldyno.outcome import Ending, make_outcome
from rldyno.plan import Plan, Trial
from rldyno.records import DONE, FAILED, Json, Results, TrialState
from rldyno.toolchains.catalogue import toolchain
from rldyno.toolchains.resolve import Interpreter
from rldyno_rig.schema import OUTCOME_FILE, TRIAL_FILE

if TYPE_CHECKING:
    from rich.console import Console

MIN_FREE_BYTES = 100_000_000
_OURS = {records.STUDY_FILE, records.MANIFEST_FILE, records.RUN_LOCK, "certificates", "trials"}


@contextlib.contextmanager
def working_in(results: Results) -> Iterator[None]:
    """Hold the directory, after making sure that it can be written."""
    check_writable(results.root)
    try:
        with records.locked(results.lock):
            yield
    except records.LockedError as locked:
        raise Problem(
            f"another rldyno run ({locked}) is working in {results.root}",
            fix="wait for it (`rldyno status` shows how far it is), or choose another directory with --out",
        ) from None


def check_writable(root: Path) -> None:
    check_free(root)
    foreign = sorted(entry.name for entry in root.iterdir() if entry.name not in _OURS)
    if foreign and not (root / records.MANIFEST_FILE).exists():
        raise Problem(
            f"{root} is not empty and holds no results of rldyno (it has {foreign[0]})",
            fix="choose another directory with --out",
        )


def check_free(root: Path) -> None:
    """Make the directory; a Problem where it cannot be written or its disk is full."""
    probe = root / f".write-test.{time.monotonic_ns()}"
    try:
        root.mkdir(parents=True, exist_ok=True)
        probe.write_bytes(b"x" * 4096)
        probe.unlink()
    except OSError as error:
        with contextlib.suppress(OSError):
            probe.unlink()
        raise Problem(
            f"cannot write to {root}: {error.strerror}", fix="choose another directory with --out"
        ) from error
    free = shutil.disk_usage(root).free
    if free < MIN_FREE_BYTES:
        raise Problem(
            f"only {free / 1e6:.0f} MB are free in {root}, a run needs {MIN_FREE_BYTES / 1e6:.0f} MB",
            fix="free some space, or choose another directory with --out",
        )


def prepare(
    results: Results,
    plan: Plan,
    interpreters: Mapping[str, Interpreter],
    absent: Mapping[str, Problem],
    keep_failed: bool,
    console: Console,
) -> list[tuple[Json, Path]]:
    """Write the directories of all trials that have to run; return them in order."""
    todo = []
    for trial in plan.trials:
        directory = results.trial(trial.id)
        state = records.trial_state(directory)
        if state.note:
            console.print(escape(f"{trial.id} is run again: {state.note}"), style="yellow", highlight=False)
        if is_kept(state, keep_failed):
            continue
        directory.mkdir(parents=True, exist_ok=True)
        framework = trial.cell.framework
        if framework in absent:
            _write_absent(directory, trial, absent[framework], state)
            continue
        content = trial_json(trial, interpreters[framework])
        records.write_json(directory / TRIAL_FILE, content)
        todo.append((content, directory))
    return todo


def contestants_to_run(results: Results, plan: Plan, keep_failed: bool) -> set[str]:
    """Contestants with trials that `prepare` would return, were all toolchains there."""
    return {trial.cell.contestant for trial in _to_run(results, plan, keep_failed)}


def devices_to_run(results: Results, plan: Plan, keep_failed: bool) -> list[str]:
    """Devices of those trials."""
    return sorted({trial.cell.device for trial in _to_run(results, plan, keep_failed)})


def _to_run(results: Results, plan: Plan, keep_failed: bool) -> Iterator[Trial]:
    for trial in plan.trials:
        if not is_kept(records.trial_state(results.trial(trial.id)), keep_failed):
            yield trial


def is_kept(state: TrialState, keep_failed: bool) -> bool:
    return state.name == DONE or (state.name == FAILED and keep_failed)


def trial_json(trial: Trial, interpreter: Interpreter) -> Json:
    """The complete trial.json."""
    chain = toolchain(trial.cell.framework)
    return {
        **trial.to_json(),
        "interpreter": str(interpreter.path),
        "isolated": interpreter.isolated,
        "variables": chain.worker_variables(trial.cell.cores),
    }


def _write_absent(directory: Path, trial: Trial, problem: Problem, state: TrialState) -> None:
    if state.outcome and state.outcome["reason"] == "absent":
        attempt = int(state.outcome["attempt"])
    else:
        attempt = records.put_aside(directory)
    records.write_json(directory / TRIAL_FILE, trial.to_json())
    outcome = make_outcome(trial.to_json(), attempt, Ending("absent", problem.message), records.now_iso())
    records.write_json(directory / OUTCOME_FILE, {**outcome, "log_tail": problem.detail})
