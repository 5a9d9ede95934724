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
    from rldyno.records.files import printable
    from rldyno.sharing.unpack import unpack_file, unpacked_name
    from rldyno.text.numbers import counted

    made = unpack_file(file, out or unpacked_name(file), with_flaws=with_flaws)
    flaws = counted(len(made.flaws), "flaw") if made.flaws else "no flaw"
    print(printable(f"{made.directory}: {counted(made.trials, 'trial')}, {flaws}"))
    if made.index.anonymous:
        resealed = counted(len(made.index.resealed), "record")
        print(f"Whoever packed it removed paths and names: {resealed} sealed again.")
