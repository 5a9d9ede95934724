"""`rldyno pack`: a results directory as one file, to give to somebody else."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def pack(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A results directory.")],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", metavar="FILE", help="The file to write. Default: DIR.rldyno.tar.gz, here."
        ),
    ] = None,
    anonymous: Annotated[
        bool,
        typer.Option(
            "--anonymous", help="Remove paths, names of users and machines, and what scripts were given."
        ),
    ] = False,
    with_flaws: Annotated[
        bool, typer.Option("--with-flaws", help="Pack also what `rldyno check` objects to, and mark it.")
    ] = False,
    with_secrets: Annotated[
        bool,
        typer.Option("--with-secrets", help="Pack also variables and arguments that look like secrets."),
    ] = False,
) -> None:
    """Write records, certificates and manifest into one file, with the hash of each.

    `rldyno unpack` makes a results directory of it again, `rldyno board` a web page of many.
    """
    from rldyno.sharing.pack import pack_directory, pack_name
    from rldyno.text.numbers import counted

    made = pack_directory(
        directory,
        out or pack_name(directory),
        anonymous=anonymous,
        with_flaws=with_flaws,
        with_secrets=with_secrets,
    )
    index = made.index
    size = made.path.stat().st_size / 1e6
    print(f"{made.path}: {counted(made.trials, 'trial')} in {len(index.members)} files, {size:.2f} MB")
    if anonymous:
        print(f"Paths and names were removed: {counted(len(index.resealed), 'record')} sealed again.")
    if made.renamed:
        print(f"What scripts were given was removed: new ids for {counted(made.renamed, 'trial')}.")
    if made.secrets:
        print(f"It holds what looks like secrets: {', '.join(made.secrets)}.")
    if index.flaws:
        print(f"Marked: {counted(len(index.flaws), 'flaw')}.")
    print(f"sha256 {made.sha256}")
