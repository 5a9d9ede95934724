"""`rldyno tensorboard DIR`: event files of finished trials."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def tensorboard(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A results directory.")],
) -> None:
    """Write TensorBoard event files for every trial that has ended. `tensorboard --logdir` shows them."""
    from rldyno.results.tensorboard import FOLDER, write_all

    written = write_all(directory, lambda line: typer.echo(line, err=True))
    typer.echo(written.sentence)
    typer.echo(f"tensorboard --logdir {directory / FOLDER}")
