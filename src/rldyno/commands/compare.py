"""`rldyno compare`: what got faster or slower between two result sets."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from rldyno.answers.changes import Changes

COLOURS = {"worse": "red", "better": "green", "unchanged": "", "undecided": "yellow"}


def compare(
    first: Annotated[
        Path, typer.Argument(metavar="A", help="The earlier results, or those of the first machine.")
    ],
    second: Annotated[
        Path, typer.Argument(metavar="B", help="The later results, or those of the second machine.")
    ],
    metric: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Only this one; may be repeated. time, throughput, cpu_time, memory, startup, update, "
            "over_floor, or a column of the result table.",
        ),
    ] = None,
    threshold: Annotated[
        float, typer.Option(metavar="SHARE", help="Ignore changes below this share.")
    ] = 0.05,
    ignore_releases: Annotated[
        bool, typer.Option("--ignore-releases", help="Match jax@0.7.0:jit of A with another release in B.")
    ] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown for a pull request.")] = False,
    figures: Annotated[
        Path | None,
        typer.Option(metavar="OUTDIR", help="Also draw curves and values of A and B in one picture each."),
    ] = None,
    form: Annotated[
        str, typer.Option("--format", metavar="LIST", help="Formats of --figures, separated by commas.")
    ] = "png,svg,pdf,csv",
) -> None:
    """Show what got faster or slower from A to B; exit with 1 if something got slower than the threshold."""
    from rldyno.answers.analysis import Analysis
    from rldyno.answers.changes import compare_results
    from rldyno.answers.changes_text import markdown as as_markdown

    both = Analysis.load(first), Analysis.load(second)
    found = compare_results(*both, threshold, metric or (), ignore_releases)
    if figures is not None:
        from rldyno.report.systems import write_systems

        files = write_systems(*both, figures, [name.strip() for name in form.split(",") if name.strip()])
        print(f"{files[0]}: {len(files) - 1} files", file=sys.stderr)
    if markdown:
        print(as_markdown(found))
    else:
        from rich.console import Console

        print_comparison(found, Console(highlight=False))
    if found.worse:
        raise typer.Exit(1)


def print_comparison(found: Changes, console: Console) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from rldyno.answers.changes_text import figures, headline, ordered, remarks
    from rldyno.answers.terminal import print_fix
    from rldyno.text.terminal import print_fitting

    if found.other_differences:
        console.print("Other differences between A and B:", style="yellow")
        for line in found.other_differences:
            console.print(f"  {line}", style="yellow", markup=False)
    changes = ordered(found)
    for setting in dict.fromkeys(change.setting for change in changes):
        shown = Table(title=Text(setting, "bold"), title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
        for title in ("Contestant", "Metric", "Verdict"):
            shown.add_column(title)
        for title in ("A", "B", "B / A", "95 % interval"):
            shown.add_column(title, justify="right")
        for change in (change for change in changes if change.setting == setting):
            metric = f"{change.metric.title}, {change.metric.unit}"
            word = Text(change.word, COLOURS[change.verdict])
            shown.add_row(change.contestant, metric, word, *figures(change))
        print_fitting(shown, console, ("Metric", "Verdict", "B / A"), "rldyno compare A B --markdown")
    for line in found.unmatched:
        console.print(f"not compared: {line}", style="dim", markup=False)
    console.print(headline(found), style="bold")
    for said in remarks(found):
        print_fix(console, said)
