"""`rldyno new-backend NAME`: the files of a new framework, to be filled in."""

from __future__ import annotations

from typing import Annotated

import typer


def new_backend(
    name: Annotated[str, typer.Argument(help="What contestants are called: mlx gives mlx:eager.")],
    module: Annotated[
        str,
        typer.Option("--import", metavar="MODULE", help="What to import, such as mlx.core. Default: NAME."),
    ] = "",
    package: Annotated[
        str, typer.Option(metavar="PIN", help='What pip installs, such as "mlx[cpu]==0.32.4".')
    ] = "",
) -> None:
    """Write a toolchain file and the two files of a backend: they lint, and say what is still missing."""
    from rldyno.toolchains.skeleton import write_skeleton

    for path in write_skeleton(name, module, package):
        typer.echo(f"wrote {path}")
    if not package:
        typer.echo(f"first: name the package and its version in toolchains/{name}.toml")
    typer.echo(
        f"next: rldyno setup {name}; rldyno verify {name} --algorithm dqn --network mlp; "
        "docs/adding-a-backend.md explains both"
    )
