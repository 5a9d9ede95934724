"""`rldyno cancel DIR`: end the jobs of a run on a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def cancel(directory: Annotated[Path, typer.Argument(metavar="DIR", help="A results directory.")]) -> None:
    """End the queued and running jobs of a run. Finished trials are kept; `rldyno run DIR` goes on later."""
    from rldyno.launch.slurm_jobs import cancel_jobs
    from rldyno.records.directory import ResultsDirectory

    print(cancel_jobs(ResultsDirectory(directory)))
