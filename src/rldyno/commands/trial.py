"""`rldyno trial DIR`: the one command a launcher runs."""

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
    from rldyno.launch.cpus import available_cpus, parse_cpus, place
    from rldyno.records import DONE, read_json
    from rldyno.trial import INTERRUPTED, StoppedError, run_trial
    from rldyno_rig.schema import TRIAL_FILE

    if cpus is None:
        cores = int(read_json(directory / TRIAL_FILE)["cores"])
        free, pool = place(available_cpus(), cores)
        worker_cpus = None if pool is None else pool[:cores]
        probe_cpu = free if probe_cpu is None else probe_cpu
    else:
        worker_cpus = parse_cpus(cpus)
    try:
        outcome = run_trial(directory, worker_cpus, probe_cpu)
    except StoppedError:
        typer.echo(f"{directory.name}: interrupted; the same command runs it again", err=True)
        raise typer.Exit(INTERRUPTED) from None
    after = f" after {outcome['wall_s']:.1f} s" if outcome["wall_s"] is not None else ""
    typer.echo(f"{outcome['trial']}: {outcome['status']} ({outcome['reason']}){after}: {outcome['message']}")
    raise typer.Exit(0 if outcome["status"] == DONE else 1)
