"""The command line: every command with the line that `rldyno --help` shows for it."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
from typing import Annotated

import typer

from rldyno import __version__
from rldyno.commands.advise import advise
from rldyno.commands.bisect import bisect
from rldyno.commands.board import board
from rldyno.commands.cancel import cancel
from rldyno.commands.check import check
from rldyno.commands.claims import claims
from rldyno.commands.compare import compare
from rldyno.commands.doctor import doctor
from rldyno.commands.export import export
from rldyno.commands.hyper import hyper
from rldyno.commands.limits import limits
from rldyno.commands.nets import nets
from rldyno.commands.new_backend import new_backend
from rldyno.commands.open import open_division
from rldyno.commands.pack import pack
from rldyno.commands.papers import papers
from rldyno.commands.plan import plan
from rldyno.commands.report import report
from rldyno.commands.run import run
from rldyno.commands.setup import setup
from rldyno.commands.status import status
from rldyno.commands.studies import studies
from rldyno.commands.tensorboard import tensorboard
from rldyno.commands.trial import trial
from rldyno.commands.unpack import unpack
from rldyno.commands.usability import usability
from rldyno.commands.verify import verify
from rldyno.commands.why import why
from rldyno.errors import UNWRITABLE, Problem, print_problem, problem_of
from rldyno.libraries import needed_for

app = typer.Typer(
    name="rldyno",
    help="Find out which deep-learning framework trains your reinforcement-learning agent best here.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"rldyno {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the version and exit.", callback=_print_version, is_eager=True),
    ] = False,
) -> None:
    """What stands before a command."""


# Each line must fit beside its command in a terminal of 80 columns.
app.command(short_help="List the shipped studies, or print one.")(studies)
app.command(short_help="List the studies of the papers and what each needs.")(papers)
app.command(short_help="Show the hyper-parameters of an algorithm.")(hyper)
app.command(short_help="Show the trials of a study and how long they take.")(plan)
app.command(short_help="Run a study, or continue it, and print the answer.")(run)
app.command(short_help="Show how far a run is, once or live.")(status)
app.command(short_help="End the jobs of a run on a cluster.")(cancel)
app.command(short_help="Write the results as one HTML file, or as figures.")(report)
app.command(short_help="Say which framework and mode to choose.")(advise)
app.command(short_help="Show in which phases one contestant is faster.")(why)
app.command(short_help="Check published claims against your results.")(claims)
app.command(short_help="Show what changed between two results directories.")(compare)
app.command(short_help="List what is wrong with a results directory.")(check)
app.command(short_help="Write the results as Parquet or CSV tables.")(export)
app.command(short_help="Write the results as TensorBoard event files.")(tensorboard)
app.command(short_help="Make one file of a results directory, to share it.")(pack)
app.command(short_help="Make a results directory of such a file.")(unpack)
app.command(short_help="Make a web page of many such files.")(board)
app.add_typer(nets, name="nets", short_help="Time networks alone, without an environment.")
app.command(short_help="Find the release in which a figure moved.")(bisect)
app.command("open", short_help="Time each framework's best whole training loop.")(open_division)
app.command(short_help="Measure the best that this machine can do.")(limits)
app.command(short_help="Measure what each framework asks of its users.")(usability)
app.command(short_help="Prove that contestants compute the same thing.")(verify)
app.command(short_help="Build the environments that the frameworks run in.")(setup)
app.command(short_help="Show what this machine has and what is missing.")(doctor)
app.command("new-backend", short_help="Write the files of a new framework, to fill in.")(new_backend)
app.command(short_help="Run one trial directory; launchers call this.")(trial)


def main() -> None:
    """Run the command; a Problem, or a disk that is full, becomes one clear message and an exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that has no "×" shows "?"
    try:
        with needed_for("this command"):
            try:
                app()
            finally:
                sys.stdout.flush()  # a full disk shows here at the latest
    except Problem as problem:
        print_problem(problem)
        sys.exit(problem.code)
    except OSError as error:
        if error.filename is None and error.errno not in (*UNWRITABLE, errno.EPIPE):
            raise  # nothing that a user can act on: a mistake in rldyno
        _drop_output()
        if error.errno != errno.EPIPE:  # whoever read it has had enough
            print_problem(problem_of(error))
        sys.exit(1)


def _drop_output() -> None:
    """What could not be written is not tried again when Python ends."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


if __name__ == "__main__":
    main()
