"""`rldyno claims`: which claims the results confirm."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer


def claims(
    directories: Annotated[
        list[Path],
        typer.Argument(metavar="DIR...", help="Results directories, or directories of `rldyno nets`."),
    ],
    file: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Check the claims of this file instead; repeatable."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the verdicts as JSON.")] = False,
) -> None:
    """Check claims against results: each holds, is refuted, or is undecided with what is missing."""
    from rich.console import Console

    from rldyno.claims.decide import as_json as verdict_json
    from rldyno.claims.decide import judge
    from rldyno.claims.evidence import gather_in
    from rldyno.claims.form import load_claims, shipped_claims
    from rldyno.claims.show import print_verdicts

    stated = [claim for path in file for claim in load_claims(path)] if file else shipped_claims()
    found = judge(stated, gather_in(directories))
    if as_json:
        print(json.dumps([verdict_json(verdict) for verdict in found], indent=2, ensure_ascii=False))
    else:
        print_verdicts(found, Console(highlight=False))
