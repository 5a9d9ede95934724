"""The command line as a whole: it starts fast, and its help fits the screen."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import version

import pytest
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


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_output_survives_a_terminal_with_few_characters(encoding: str) -> None:
    command = [sys.executable, "-m", "rldyno", "hyper", "dqn"]
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    done = subprocess.run(command, capture_output=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    assert b"Traceback" not in done.stderr
