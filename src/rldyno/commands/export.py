"""`rldyno export`: the results as tables for other tools."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def export(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A results directory, finished or not.")],
    out: Annotated[
        Path | None, typer.Option(metavar="DIR2", help="The directory to write. Default: DIR/export.")
    ] = None,
    format_: Annotated[str, typer.Option("--format", help="parquet, csv or both.")] = "parquet",
    tables: Annotated[
        bool, typer.Option("--tables", help="Also write every table of the report, as CSV, to DIR2/tables.")
    ] = False,
) -> None:
    """Write all numbers as tables, and a README that explains their columns."""
    from rldyno.answers.analysis import Analysis
    from rldyno.results.export import export_results

    analysis = Analysis.load(directory)
    for path in export_results(analysis.results, out, format_):
        print(path)
    if tables:
        from rldyno.report.figures import export_tables

        for path in export_tables(analysis, (out or directory / "export") / "tables"):
            print(path)
