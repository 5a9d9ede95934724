"""The command line as a whole: it starts fast, and its help fits the screen."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version

from typer.testing import CliRunner

from rldyno.cli import app

HEAVY = {"altair", "jinja2", "numpy", "pandas", "polars", "psutil", "pydantic", "rich", "scipy", "vl_convert"}


def imported_by(statement: str) -> set[str]:
    """The libraries that a fresh process has imported after the statement."""
    code = f"{statement}\nimport sys\nprint(*(name.partition('.')[0] for name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_the_command_line_imports_nothing_heavy() -> None:
    assert not imported_by("import rldyno.cli") & HEAVY


def test_every_command_has_a_line_that_is_not_cut() -> None:
    shown = CliRunner().invoke(app, ["--help"], terminal_width=80).output
    _, _, commands = shown.partition("Commands:")
    lines = commands.strip().splitlines()
    assert len(lines) == len(app.registered_commands) + len(app.registered_groups)
    assert all(line.endswith(".") and not line.endswith("...") for line in lines), shown


def test_the_version() -> None:
    assert CliRunner().invoke(app, ["--version"]).output == f"rldyno {version('rldyno')}\n"
