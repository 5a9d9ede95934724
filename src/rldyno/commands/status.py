"""`rldyno status DIR`: where a run stands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def status(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A results directory.")],
) -> None:
    """Count the trials by state; show the running ones live and why the failed ones failed."""
    from rich.console import Console
    from rich.markup import escape

    from rldyno.answers.looks import status_lines
    from rldyno.records import files as records
    from rldyno.session.progress import figures_table, read_figures
    from rldyno_rig.schema import TRIAL_FILE

    console = Console(highlight=False, soft_wrap=True)
    results = records.Results(directory)
    states = {trial: records.trial_state(results.trial(trial)) for trial in results.trial_ids()}
    names = [state.name for state in states.values()]
    counts = [f"{names.count(name)} {name}" for name in records.STATES if name in names]
    console.print(f"{len(states)} trials: {', '.join(counts)}")
    holder = records.lock_holder(results.lock)
    if holder is not None:
        console.print(f"`rldyno run` is working here (pid {holder.get('pid')}, since {holder.get('since')})")
    for line in status_lines(results.read_manifest()):
        console.print(escape(line))
    running = {
        trial: read_figures(
            results.trial(trial), records.read_json(results.trial(trial) / TRIAL_FILE)["budget"]
        )
        for trial, state in states.items()
        if state.name == records.RUNNING
    }
    if running:
        console.print(figures_table(running))
    for trial, state in states.items():
        if state.name == records.FAILED and state.outcome:
            console.print(escape(f"failed  {trial}: {state.outcome['reason']}: {state.outcome['message']}"))
        elif state.note:
            console.print(escape(f"{state.name}  {trial}: {state.note}"))
