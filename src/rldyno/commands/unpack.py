"""`rldyno unpack`: a pack as a results directory again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def unpack(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file that `rldyno pack` wrote.")],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", metavar="DIR", help="The directory to make. Default: named like FILE, here."
        ),
    ] = None,
    with_flaws: Annotated[
        bool, typer.Option("--with-flaws", help="Also a pack whose records have flaws.")
    ] = False,
) -> None:
    """Make a results directory from a pack, after checking all of it: all or nothing is written."""
    from rldyno.sharing.unpack import unpack_file, unpacked_name

    made = unpack_file(file, out or unpacked_name(file), with_flaws=with_flaws)
    counted = f"{len(made.flaws)} flaws" if made.flaws else "no flaw"
    typer.echo(f"{made.directory}: {made.trials} trials, {counted}")
    if made.index.anonymous:
        resealed = len(made.index.resealed)
        typer.echo(f"Whoever packed it removed paths and names: {resealed} records were sealed again.")
