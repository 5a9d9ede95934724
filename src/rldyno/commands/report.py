"""`rldyno report`: the results as one offline HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def report(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A results directory, finished or not.")],
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Where to write; DIR/report.html.")] = None,
) -> None:
    """Write the report: one HTML file that opens from disk and needs no network."""
    from rldyno.report import write_report

    print(write_report(directory, out))
