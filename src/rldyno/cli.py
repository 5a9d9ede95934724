"""The command line: parse, call one function, print."""

from __future__ import annotations

import sys

import typer

from rldyno.commands.advise import advise
from rldyno.commands.claims import claims
from rldyno.commands.compare import compare
from rldyno.commands.doctor import doctor
from rldyno.commands.export import export
from rldyno.commands.limits import limits
from rldyno.commands.nets import nets
from rldyno.commands.plan import plan
from rldyno.commands.report import report
from rldyno.commands.run import run
from rldyno.commands.setup import setup
from rldyno.commands.status import status
from rldyno.commands.tensorboard import tensorboard
from rldyno.commands.trial import trial
from rldyno.commands.usability import usability
from rldyno.commands.verify import verify
from rldyno.errors import Problem, print_problem

app = typer.Typer(
    name="rldyno",
    help="Which deep-learning framework trains your reinforcement-learning agent best on this machine?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command()(plan)
app.command()(setup)
app.command()(doctor)
app.command()(verify)
app.command()(run)
app.command()(status)
app.command()(report)
app.command()(advise)
app.command()(claims)
app.command()(compare)
app.command()(usability)
app.command()(export)
app.command()(trial)
app.command()(limits)
app.command()(tensorboard)
app.add_typer(nets, name="nets")


def main() -> None:
    """Run the command; a Problem becomes one clear message and an exit code."""
    try:
        app()
    except Problem as problem:
        print_problem(problem)
        sys.exit(problem.code)


if __name__ == "__main__":
    main()
