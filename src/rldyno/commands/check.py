"""`rldyno check DIR`: everything that is wrong with a results directory."""

from __future__ import annotations

import json
import shlex
import sys
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

    Also of what `nets`, `open`, `usability` and `bisect` left, with trials or without.

    A trial with a flaw does not count in any answer. `rldyno run DIR` runs it again.
    """
    from rldyno.errors import Problem
    from rldyno.records.directory import ResultsDirectory
    from rldyno.records.files import printable
    from rldyno.report.sources import files_beside, flaws_beside
    from rldyno.results.check import check_directory
    from rldyno.session.repair import rebuild_manifest

    if repair:
        try:
            ResultsDirectory(directory).read_manifest()
        except Problem:
            print(rebuild_manifest(directory), file=sys.stderr if as_json else sys.stdout)
    home = ResultsDirectory(directory)
    without_trials = not home.manifest.exists() and not home.trials.is_dir() and bool(files_beside(directory))
    of_trials = [] if without_trials else check_directory(directory)
    flaws = [printable(flaw) for flaw in (*of_trials, *flaws_beside(directory))]  # with names of files
    if as_json:
        print(json.dumps(flaws, indent=1))
    else:
        for flaw in flaws:
            print(flaw)
        counted = f"{len(flaws)} flaw{'' if len(flaws) == 1 else 's'}" if flaws else "no flaw"
        print(f"{directory}: {counted}" + (f"; {remedy(directory, bool(of_trials))}" if flaws else ""))
    raise typer.Exit(1 if flaws else 0)


def remedy(directory: Path, of_trials: bool = True) -> str:
    """Nothing can run without a manifest, and it can be rebuilt only from trials."""
    from rldyno.errors import Problem
    from rldyno.records.directory import ResultsDirectory, run_command

    if not of_trials:
        return "remove these files, or make them again: no trial depends on them"
    found = ResultsDirectory(directory)
    try:
        found.read_manifest()
    except Problem:
        if found.trials.is_dir():
            command = shlex.join(["rldyno", "check", str(directory), "--repair"])
            return f"to rebuild its manifest from the trials: {command}"
        return "give the directory that `rldyno run` wrote, for example results/quickstart"
    return f"to run what does not count: {run_command(directory)}"
