"""`rldyno trial DIR`: the only command that a launcher runs."""

from __future__ import annotations

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
) -> None:
    """Run one trial. Exit code: 0 done, 1 failed, 3 records cannot be written, 130 interrupted."""
    from rldyno.trial.entry import run_one

    raise typer.Exit(run_one(directory, cpus, probe_cpu))
