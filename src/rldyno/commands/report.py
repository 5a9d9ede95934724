"""`rldyno report`: the results as one offline HTML file, or as pictures and tables."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer


def report(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A results directory, finished or not.")],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The file to write. Default: DIR/report.html.")
    ] = None,
    figures: Annotated[
        Path | None,
        typer.Option(metavar="OUTDIR", help="Write every chart and table as separate files instead."),
    ] = None,
    form: Annotated[
        str, typer.Option("--format", metavar="LIST", help="Formats of --figures, separated by commas.")
    ] = "png,svg,pdf,csv,md,tex",
    curve: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="Lay the learning curves of a CSV file (step, return, spread) over ours; repeatable. "
            "DIR keeps a copy.",
        ),
    ] = None,
) -> None:
    """Write the report: one HTML file that opens from disk and needs no network."""
    from rldyno.answers.analysis import Analysis
    from rldyno.report.figures import write_figures
    from rldyno.report.page import write_report

    analysis = Analysis.load(directory)
    if curve:
        from rldyno.curves.store import keep

        for file in curve:
            print(f"{keep(directory, file)}: kept with the results", file=sys.stderr)
    if figures is None:
        print(write_report(analysis, out))
        return
    files = write_figures(analysis, figures, [name.strip() for name in form.split(",") if name.strip()])
    print(f"{files[0]}: {len(files) - 1} files")
