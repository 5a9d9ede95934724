"""`rldyno why`: in which phases one contestant is faster than another."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rldyno.commands.options import Toolchains

if TYPE_CHECKING:
    from rich.console import Console

    from rldyno.answers.why import Why
    from rldyno.answers.why_steps import Waterfall
    from rldyno.profiling.profile import Profile

WIDTH = 100
TABLES_SHOWN = 3
FALLS_SHOWN = 6


def why(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A results directory, finished or not.")],
    first: Annotated[
        str | None, typer.Argument(metavar="A", help="A contestant. Default: the fastest.")
    ] = None,
    second: Annotated[
        str | None, typer.Argument(metavar="B", help="Another one. Default: the slowest.")
    ] = None,
    algorithm: Annotated[str | None, typer.Option(help="Only this algorithm.")] = None,
    environment: Annotated[str | None, typer.Option(help="Only this environment.")] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="Only comparisons with this setting: cores=2, device=cuda, batch_size=64; repeatable.",
        ),
    ] = None,
    profile: Annotated[
        bool,
        typer.Option(
            "--profile",
            help="Run both again for a few seconds under py-spy or perf, and name the functions that the "
            "largest phase spends its time in; for the first comparison.",
        ),
    ] = False,
    toolchain: Toolchains = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the differences as JSON.")] = False,
) -> None:
    """Show in which phases A is faster than B; exit with 1 when no comparison allows an answer."""
    from rich.console import Console

    from rldyno.answers.analysis import Analysis
    from rldyno.answers.why_pairs import Question, pairs, steps_of
    from rldyno.answers.why_steps import waterfall_json
    from rldyno.answers.why_words import why_json
    from rldyno.profiling.profile import profile_json
    from rldyno.toolchains.resolve import parse_overrides

    asked = Question.of(algorithm, environment, where or (), (first, second))
    analysis = Analysis.load(directory)
    found, falls = pairs(analysis, asked), steps_of(analysis, asked)
    profiles = profiles_of(found[0], directory, parse_overrides(toolchain or [])) if profile else []
    if as_json:
        said = {"pairs": list(map(why_json, found)), "waterfalls": list(map(waterfall_json, falls))}
        said |= {"profiles": list(map(profile_json, profiles))} if profile else {}
        print(json.dumps(said, indent=2, ensure_ascii=False))
    else:
        console = Console(highlight=False)
        print_pairs(found, console)
        print_falls(falls, console)
        print_profiles(profiles, console)
    if all(item.trust.barred for item in found):
        raise typer.Exit(1)


def print_pairs(found: list[Why], console: Console) -> None:
    from rich.text import Text

    from rldyno.answers.terminal import print_fix
    from rldyno.answers.why_words import remarks, sentence

    for index, item in enumerate(found):
        console.print(Text(item.group.label, "bold"))
        style = "red" if item.trust.barred else "green"
        console.print(Text(sentence(item), style), width=min(WIDTH, console.width))
        if index < TABLES_SHOWN:
            print_table(item, console)
        for line in remarks(item):
            console.print(Text(line, "dim"), width=min(WIDTH, console.width))
        for fix in item.trust.fixes:
            print_fix(console, fix)
        console.print()
    if len(found) > TABLES_SHOWN:
        console.print(f"Tables of the first {TABLES_SHOWN} are shown. Choose with --where; --json has all.")


def print_falls(found: list[Waterfall], console: Console) -> None:
    from rich.text import Text

    from rldyno.answers.why_steps import waterfall_words

    if not found:
        return
    console.print(Text("From the plain mode of a framework to its fastest form", "bold"))
    for item in found[:FALLS_SHOWN]:
        console.print(Text(waterfall_words(item)), width=min(WIDTH, console.width))
    if len(found) > FALLS_SHOWN:
        console.print(f"… and {len(found) - FALLS_SHOWN} more; --json has them all.")


def profiles_of(item: Why, directory: Path, overrides: dict[str, Path]) -> list[Profile]:
    """Of the phase that makes most of the difference, or takes most where nothing may be said of it."""
    from rldyno.profiling import profile as profiling
    from rldyno.records.directory import ResultsDirectory

    profiling.find_tool()
    phases = item.split.phases
    largest = max(phases, key=lambda phase: phase.slow.us) if item.trust.barred else phases[0]
    trials = (item.group.runs[name].trials[0] for name in (item.fast, item.slow))
    places = (ResultsDirectory(directory).trial(trial) for trial in trials)
    return [profiling.profile(place, largest.name, overrides) for place in places]


def print_profiles(found: list[Profile], console: Console) -> None:
    from rich.text import Text

    from rldyno.profiling.profile import profile_words

    for item in found:
        first, *functions = profile_words(item)
        console.print(Text(first, "bold"), width=min(WIDTH, console.width))
        for line in functions:
            console.print(Text(f"  {line}"), soft_wrap=True)


def print_table(item: Why, console: Console) -> None:
    from rich import box
    from rich.table import Table

    from rldyno.answers.why_words import split_table
    from rldyno.text.terminal import print_fitting

    made = split_table(item)
    shown = Table(title=made.title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for index, name in enumerate(made.columns):
        # A column that does not fit is left out; an interval is never cut.
        widest = max(len(row[index]) for row in made.rows)
        shown.add_column(name, justify="right" if index else "left", min_width=widest)
    for row in made.rows[:-1]:
        shown.add_row(*row)
    shown.add_section()
    shown.add_row(*made.rows[-1])
    print_fitting(
        shown, console, (item.fast, item.slow, "Difference", "Share"), "a wider terminal, or --json"
    )
