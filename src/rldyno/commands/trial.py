"""`rldyno trial DIR`: the only command that a launcher runs."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer


def trial(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A trial directory, with its trial.json.")],
    cpus: Annotated[
        str | None,
        typer.Option(help="CPUs of the worker, like 1 or 2-5. Default: as many as the trial has cores."),
    ] = None,
    probe_cpu: Annotated[
        int | None,
        typer.Option(help="CPU of the probe. Default: one the worker does not use, if there is one."),
    ] = None,
    foreign: Annotated[
        bool, typer.Option("--foreign", help="Run it although its files belong to another user.")
    ] = False,
) -> None:
    """Run one trial. Exit code: 0 done, 1 failed, 3 records cannot be written, 130 interrupted.

    It starts the interpreter that trial.json names, with the variables that stand there: run only
    directories that you made, or whose trial.json you have read. `rldyno run` writes trial.json anew.
    """
    from rldyno.trial.entry import run_one

    if not foreign:
        check_own(directory)
    raise typer.Exit(run_one(directory, cpus, probe_cpu))


def check_own(directory: Path) -> None:
    """Launchers start `rldyno.trial.entry` instead: they have written trial.json themselves."""
    from rldyno.records.owner import check_owned
    from rldyno_rig.schema import TRIAL_FILE

    file = directory / TRIAL_FILE
    check_owned(
        (directory, file),
        why="a trial starts the program that its trial.json names",
        fix=f"read `interpreter` and `variables` in {shlex.quote(str(file))}; if you trust them: "
        f"{shlex.join(['rldyno', 'trial', str(directory), '--foreign'])}",
    )
