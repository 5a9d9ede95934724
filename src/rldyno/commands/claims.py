"""`rldyno claims`: which claims the results confirm."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer


def claims(
    directories: Annotated[
        list[Path],
        typer.Argument(
            metavar="DIR...",
            help="Results directories, or directories of `rldyno nets` or `rldyno usability -o`.",
        ),
    ],
    file: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Check the claims of this file instead; repeatable."),
    ] = None,
    source: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Only claims of this source, such as liu2022; repeatable."),
    ] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print a Markdown list.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the verdicts as JSON.")] = False,
) -> None:
    """Check claims against results: each holds, is refuted, or is undecided with what is missing."""
    from rich.console import Console

    from rldyno.claims.decide import as_json as verdict_json
    from rldyno.claims.decide import judge
    from rldyno.claims.evidence import gather_in
    from rldyno.claims.form import load_claims, of_sources, shipped_claims
    from rldyno.claims.show import markdown as as_markdown
    from rldyno.claims.show import print_verdicts

    stated = [claim for path in file for claim in load_claims(path)] if file else shipped_claims()
    found = judge(of_sources(stated, source) if source else stated, gather_in(directories))
    if as_json:
        print(json.dumps([verdict_json(verdict) for verdict in found], indent=2, ensure_ascii=False))
    elif markdown:
        print(as_markdown(found), end="")
    else:
        print_verdicts(found, Console(highlight=False))
