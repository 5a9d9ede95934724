"""Trial directories made ready to run: which trials are left, on which interpreters, with which files."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from rich.markup import escape

from rldyno.errors import Problem
from rldyno.guests.start import find_guests, guest_file, placed
from rldyno.launch.launcher import PreparedTrial
from rldyno.records.attempts import put_aside
from rldyno.records.directory import ResultsDirectory
from rldyno.records.files import now_iso
from rldyno.records.seal import write_record
from rldyno.records.trial_state import TrialState, trial_state
from rldyno.study.plan import Cell, Plan, Trial
from rldyno.toolchains.catalogue import toolchain
from rldyno.toolchains.placed import placed_file
from rldyno.toolchains.resolve import Interpreter, ensure
from rldyno.trial.outcome import Ending, make_outcome
from rldyno_rig.schema import OUTCOME_FILE, TRIAL_FILE
from rldyno_rig.trial_file import Conditions, TrialFile

if TYPE_CHECKING:
    from rich.console import Console


def find_interpreters(
    frameworks: Iterable[str],
    overrides: Mapping[str, Path] | None,
    pip_args: Sequence[str] | None,
    console: Console,
    needs: Mapping[str, Collection[str]] | None = None,
) -> tuple[dict[str, Interpreter], dict[str, Problem]]:
    """(framework → interpreter, framework or `extended` → why there is none). One that fails stops no others.

    `needs`: framework → collectives and families of environments; the parts for them are built, too.
    """
    from rldyno.toolchains.progress import shown_progress

    found: dict[str, Interpreter] = {}
    absent: dict[str, Problem] = {}

    def find(framework: str, name: str, used: Collection[str]) -> None:
        try:
            with shown_progress(console) as on_progress:
                found.update(ensure([framework], overrides, pip_args, on_progress, {framework: used}))
        except Problem as problem:
            absent[name] = problem

    for framework in dict.fromkeys(frameworks):
        find(framework, framework, ())
        used: list[str] = []
        for need in sorted((needs or {}).get(framework, ())):
            if framework in found and toolchain(framework).part_of(need):
                name = extended(framework, need)
                find(framework, name, [*used, need])
                used += [] if name in absent else [need]
    return found, absent


class BuildOptions(Protocol):
    """What toolchains are found and built with."""

    @property
    def overrides(self) -> Mapping[str, Path] | None: ...

    @property
    def pip_args(self) -> Sequence[str] | None: ...


def with_guests(
    plan: Plan, folder: Path | None, to_run: Iterable[Trial], options: BuildOptions, console: Console
) -> tuple[Plan, dict[str, Interpreter], dict[str, Problem]]:
    """(the plan with the places of its scripts, contestant → what runs its script, or why nothing does).

    `folder`: that of the study file; None where a results directory was given.
    """
    guests = find_guests(plan, folder, {trial.cell.contestant for trial in to_run})
    found: dict[str, Interpreter] = {}
    absent: dict[str, Problem] = {}
    for contestant, start in guests.items():
        names = [start.toolchain] if start.toolchain else []
        built, lacking = find_interpreters(names, options.overrides, options.pip_args, console)
        try:
            found[contestant] = start.interpreter(built, lacking)
        except Problem as problem:
            absent[contestant] = problem
    return placed(plan, guests), found, absent


def extended(framework: str, need: str) -> str:
    """`torch with horovod`, `torch with atari`: trials that may need more than others."""
    return f"{framework} with {need}"


def needs_of(cells: Iterable[Cell]) -> dict[str, set[str]]:
    """Framework → the collectives and families of environments of its cells."""
    found: dict[str, set[str]] = {}
    for cell in (cell for cell in cells if cell.guest is None):
        found.setdefault(cell.framework, set()).update(cell.needs)
    return found


def why_absent(absent: Mapping[str, Problem], cell: Cell) -> Problem | None:
    """Why it cannot run: its framework is not there, or what its team or its environment needs."""
    names = (cell.toolchain, *(extended(cell.framework, need) for need in cell.needs))
    return next((absent[name] for name in names if name in absent), None)


def trials_to_run(directory: ResultsDirectory, plan: Plan, keep_failed: bool) -> Iterator[Trial]:
    """The trials that `prepare` would return if every toolchain existed."""
    for trial in plan.trials:
        if not is_kept(trial_state(directory.trial(trial.id)), keep_failed):
            yield trial


def is_kept(state: TrialState, keep_failed: bool) -> bool:
    return state.done or (state.failed and keep_failed)


def prepare(
    directory: ResultsDirectory,
    plan: Plan,
    interpreters: Mapping[str, Interpreter],
    absent: Mapping[str, Problem],
    keep_failed: bool,
    console: Console,
    attached: Collection[str] = (),
) -> list[PreparedTrial]:
    """Write the directories of all trials that have to run; return them in order.

    Those of `attached` belong to jobs of an earlier session: nothing is written there.
    """
    prepared = []
    for trial in plan.trials:
        home = directory.trial(trial.id)
        state = trial_state(home)
        if state.note:
            console.print(escape(f"{trial.id} is run again: {state.note}"), style="yellow", highlight=False)
        if is_kept(state, keep_failed):
            continue
        home.mkdir(parents=True, exist_ok=True)
        problem = why_absent(absent, trial.cell)
        if problem:
            _write_absent(home, trial, problem, state)
            continue
        file = trial_file(trial, interpreters[trial.cell.toolchain])
        if trial.id not in attached:
            write_trial(home, file)
        prepared.append(PreparedTrial(file, home, trial.id in attached))
    return prepared


def trial_file(trial: Trial, interpreter: Interpreter) -> TrialFile:
    """The complete trial.json, but for the conditions right before the start."""
    if trial.cell.guest is not None:
        return guest_file(trial, interpreter)
    return placed_file(trial.to_file(), interpreter)


def with_conditions(trial: PreparedTrial, conditions: Conditions) -> PreparedTrial:
    """Complete trial.json: from here on the trial needs nothing outside its directory."""
    if trial.attached or trial.file.conditions == conditions:
        return trial
    file = replace(trial.file, conditions=conditions)
    write_trial(trial.directory, file)
    return replace(trial, file=file)


def write_trial(home: Path, file: TrialFile) -> None:
    write_record(home / TRIAL_FILE, file.to_json())


def _write_absent(home: Path, trial: Trial, problem: Problem, state: TrialState) -> None:
    known = state.outcome
    attempt = known.attempt if known and known.absent else put_aside(home)
    write_trial(home, trial.to_file())
    outcome = make_outcome(trial.id, attempt, Ending.absent(problem.message), now_iso())
    write_record(home / OUTCOME_FILE, replace(outcome, log_tail=problem.detail).to_json())
