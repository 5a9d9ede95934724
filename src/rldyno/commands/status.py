"""`rldyno status DIR`: the progress of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def status(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A results directory.")],
) -> None:
    """Count the trials by state. Show what the running ones do and why the failed ones failed."""
    from rich.console import Console
    from rich.markup import escape

    from rldyno.answers.adaptive import status_lines
    from rldyno.records.directory import ResultsDirectory
    from rldyno.records.locks import lock_holder
    from rldyno.records.status import STATES
    from rldyno.records.trial_state import read_trial, trial_state
    from rldyno.session.progress import progress_table, read_progress

    console = Console(highlight=False, soft_wrap=True)
    results = ResultsDirectory(directory)
    manifest = results.read_manifest()
    states = {trial: trial_state(results.trial(trial)) for trial in manifest.trials}
    names = [state.name for state in states.values()]
    counts = [f"{names.count(name)} {name}" for name in STATES if name in names]
    console.print(f"{len(states)} trials: {', '.join(counts)}")
    holder = lock_holder(results.lock)
    if holder is not None:
        console.print(f"`rldyno run` is working here (pid {holder.get('pid')}, since {holder.get('since')})")
    for line in status_lines(manifest):
        console.print(escape(line))
    running = {
        trial: read_progress(results.trial(trial), read_trial(results.trial(trial)).budget)
        for trial, state in states.items()
        if state.running
    }
    if running:
        console.print(progress_table(running))
    for trial, state in states.items():
        if state.failed and state.outcome:
            console.print(escape(f"failed  {trial}: {state.outcome.reason}: {state.outcome.message}"))
        elif state.note:
            console.print(escape(f"{state.name}  {trial}: {state.note}"))
