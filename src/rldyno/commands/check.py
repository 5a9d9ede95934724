"""`rldyno check DIR`: everything that is wrong with a results directory."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Annotated

import typer


def check(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A results directory, also of others.")],
    repair: Annotated[
        bool, typer.Option("--repair", help="Rebuild a damaged manifest from the trials first.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the flaws as a JSON array.")] = False,
) -> None:
    """List damaged, altered, missing and foreign records. The exit code is 1 if there are any.

    A trial with a flaw does not count in any answer. `rldyno run DIR` runs it again.
    """
    from rldyno.errors import Problem
    from rldyno.records.directory import ResultsDirectory
    from rldyno.results.check import check_directory
    from rldyno.session.repair import rebuild_manifest

    if repair:
        try:
            ResultsDirectory(directory).read_manifest()
        except Problem:
            typer.echo(rebuild_manifest(directory), err=as_json)
    flaws = check_directory(directory)
    if as_json:
        typer.echo(json.dumps(flaws, indent=1))
    else:
        for flaw in flaws:
            typer.echo(flaw)
        counted = f"{len(flaws)} flaw{'' if len(flaws) == 1 else 's'}" if flaws else "no flaw"
        typer.echo(f"{directory}: {counted}" + (f"; {remedy(directory)}" if flaws else ""))
    raise typer.Exit(1 if flaws else 0)


def remedy(directory: Path) -> str:
    """Nothing can run without a manifest, and it can be rebuilt only from trials."""
    from rldyno.errors import Problem
    from rldyno.records.directory import ResultsDirectory, run_command

    found = ResultsDirectory(directory)
    try:
        found.read_manifest()
    except Problem:
        if found.trials.is_dir():
            command = shlex.join(["rldyno", "check", str(directory), "--repair"])
            return f"to rebuild its manifest from the trials: {command}"
        return "give the directory that `rldyno run` wrote, for example results/quickstart"
    return f"to run what does not count: {run_command(directory)}"
