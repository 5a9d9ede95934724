"""What is printed when the trials have ended: failures with their causes, warnings, what is left to run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rich.markup import escape

from rldyno.records.directory import ResultsDirectory
from rldyno.records.trial_state import TrialState, trial_state
from rldyno.study.plan import Plan

if TYPE_CHECKING:
    from rich.console import Console

_WARNINGS_SHOWN = 10
_LOG_LINES_SHOWN = 10


def summarise(directory: ResultsDirectory, plan: Plan, console: Console) -> bool:
    """Print it; True when every trial is done."""
    states = {trial.id: trial_state(directory.trial(trial.id)) for trial in plan.trials}
    _print_failures(directory, states, console)
    _print_warnings(states, console)
    done = sum(state.done for state in states.values())
    if done < len(states):
        rest = f"{len(states) - done} of {len(states)} trials are not done"
        console.print(f"{rest}; the same command runs them again", highlight=False)
    return done == len(states)


def _print_failures(directory: ResultsDirectory, states: Mapping[str, TrialState], console: Console) -> None:
    for message, trials in _by_message(states).items():
        console.print(escape(f"failed: {message}"), style="red", highlight=False, soft_wrap=True)
        for trial in trials:
            console.print(f"  {directory.trial(trial)}", markup=False, highlight=False, soft_wrap=True)
        outcome = states[trials[0]].outcome
        log = (outcome.log_tail if outcome else None) or ""
        for line in log.splitlines()[-_LOG_LINES_SHOWN:]:
            console.print(f"  | {line}", markup=False, highlight=False, soft_wrap=True)


def _by_message(states: Mapping[str, TrialState]) -> dict[str, list[str]]:
    """`reason: message` → its failed trials: a cause that fails many trials is reported once."""
    grouped: dict[str, list[str]] = {}
    for trial, state in states.items():
        if state.failed and state.outcome:
            grouped.setdefault(f"{state.outcome.reason}: {state.outcome.message}", []).append(trial)
    return grouped


def _print_warnings(states: Mapping[str, TrialState], console: Console) -> None:
    found = [
        f"warning: {trial}: {warning}"
        for trial, state in states.items()
        for warning in (state.outcome.warnings if state.outcome else ())
    ]
    rest = len(found) - _WARNINGS_SHOWN
    more = [f"{rest} more warnings: `rldyno export` writes all of them"] if rest > 0 else []
    for line in [*found[:_WARNINGS_SHOWN], *more]:
        console.print(escape(line), style="yellow", highlight=False, soft_wrap=True)
