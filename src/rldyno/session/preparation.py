"""A results directory made ready: held by one lab, writable, with the files that its trials start from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from rich.markup import escape

from rldyno.errors import Problem
from rldyno.records import files as records
from rldyno.records.files import DONE, FAILED, Json, Results, TrialState
from rldyno.study.plan import Plan, Trial
from rldyno.toolchains.catalogue import toolchain
from rldyno.toolchains.resolve import Interpreter
from rldyno.trial.outcome import Ending, make_outcome
from rldyno_rig.schema import OUTCOME_FILE, TRIAL_FILE

if TYPE_CHECKING:
    from rich.console import Console


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
        "backend": chain.backend,
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
