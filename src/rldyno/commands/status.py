"""`rldyno status DIR`: the progress of a run, once or until it ends."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from rldyno.records.directory import ResultsDirectory
    from rldyno.session.progress import TrialProgress
    from rldyno.session.watching import Look


def status(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A results directory.")],
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Show it live until the run ends.")] = False,
) -> None:
    """Count the trials by state. Show what the running ones do and why the failed ones failed."""
    from rich.console import Console

    from rldyno.records.directory import ResultsDirectory
    from rldyno.session.watching import look_at

    console = Console(highlight=False, soft_wrap=True)
    results = ResultsDirectory(directory)
    if follow:
        first = look_at(results)
        if not console.is_terminal:
            _print_look(first, results, console)
        try:
            _follow(first, results, console)
        except KeyboardInterrupt:
            raise typer.Exit(130) from None
    _print_look(look_at(results), results, console)


def _follow(first: Look, results: ResultsDirectory, console: Console) -> None:
    """The display of `rldyno run`, from another process; a line for each trial that ends meanwhile."""
    import time

    from rldyno.records.status import DONE, FAILED
    from rldyno.session.following import outcome_sentence
    from rldyno.session.progress import Snapshot, open_display
    from rldyno.session.watching import looks

    started = time.monotonic()
    ended = {trial for trial, state in first.states.items() if state.ended}
    with open_display(console) as display:
        for look in looks(results):
            now_ended = {trial: state for trial, state in look.states.items() if state.ended}
            for trial in sorted(now_ended.keys() - ended):
                outcome = now_ended[trial].outcome
                counted = f"[{len(now_ended)}/{len(look.states)}]"
                display.print_line(f"{counted} {trial}: {outcome_sentence(outcome) if outcome else 'ended'}")
            ended = set(now_ended)
            snapshot = Snapshot(
                done=look.count(DONE),
                failed=look.count(FAILED),
                total=len(look.states),
                running=_progress(look, results),
                elapsed_s=time.monotonic() - started,
                eta_s=None,
            )
            display.update(snapshot)


def _progress(look: Look, results: ResultsDirectory) -> dict[str, TrialProgress]:
    from rldyno.records.trial_records import read_trial
    from rldyno.session.progress import read_progress

    homes = {trial: results.trial(trial) for trial in look.running}
    return {trial: read_progress(home, read_trial(home).budget) for trial, home in homes.items()}


def _print_look(look: Look, results: ResultsDirectory, console: Console) -> None:
    from rich.markup import escape

    from rldyno.answers.adaptive import status_lines
    from rldyno.launch.slurm_jobs import job_lines, jobs_of_trials
    from rldyno.records.status import STATES
    from rldyno.session.progress import progress_table
    from rldyno.text.terminal import print_fitting

    counts = [f"{look.count(name)} {name}" for name in STATES if look.count(name)]
    console.print(f"{len(look.states)} trials: {', '.join(counts)}")
    if look.runner is not None:
        pid, since = look.runner.get("pid"), look.runner.get("since")
        console.print(f"`rldyno run` is working here (pid {pid}, since {since})")
    for line in (*job_lines(results), *status_lines(look.manifest)):
        console.print(escape(line))
    if look.running:
        print_fitting(progress_table(_progress(look, results)), console, ("budget",), "a wider terminal")
    jobs = jobs_of_trials(results)
    for trial, state in look.states.items():
        if state.failed and state.outcome:
            job = f"job {jobs[trial]}: " if trial in jobs else ""
            console.print(escape(f"failed  {trial}: {job}{state.outcome.reason}: {state.outcome.message}"))
        elif state.note:
            console.print(escape(f"{state.name}  {trial}: {state.note}"))
