"""Ctrl-C in the first moments of a command, while modules are imported: exit code 130 and no traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

# Sends SIGINT to its own process when a module of the given name is looked for.
INTERRUPTER = """
import os, signal, sys

class Interrupter:
    def find_spec(self, name, path=None, target=None):
        if name == os.environ["INTERRUPT_AT"]:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)
        return None

sys.meta_path.insert(0, Interrupter())
"""


def interrupted(folder: Path, module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    (folder / "sitecustomize.py").write_text(INTERRUPTER)
    path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": path, "INTERRUPT_AT": module}
    return subprocess.run(
        [sys.executable, "-m", "rldyno", *arguments],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("module", ["rldyno.cli", "typer", "rldyno.errors", "rldyno.commands.verify"])
def test_the_imports_of_the_command_line_are_left_without_a_word(tmp_path: Path, module: str) -> None:
    done = interrupted(tmp_path, module, "studies")
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "arguments"),
    [
        ("rldyno.studies.shipped", ["studies"]),
        ("rldyno_rig.algorithms", ["hyper", "dqn"]),
        ("pydantic", ["plan", "quickstart"]),
        ("rldyno.session.session", ["run", "quickstart"]),
        ("rldyno.records.directory", ["status", "."]),
        ("rldyno.records.directory", ["check", "."]),
        ("rldyno.results.load", ["advise", "."]),
        ("rldyno.results.load", ["export", "."]),
        ("rldyno.toolchains.build", ["setup", "numpy"]),
        ("psutil", ["setup", "--list"]),
        ("rldyno.doctor.diagnosis", ["doctor", "--quick"]),
        ("rldyno.proofs.prove", ["verify", "numpy:eager"]),
        ("rldyno.results.load", ["report", "."]),
    ],
    ids=lambda value: value if isinstance(value, str) else value[0],
)
def test_later_imports_end_with_one_line_at_most(tmp_path: Path, module: str, arguments: list[str]) -> None:
    done = interrupted(tmp_path, module, *arguments)
    assert done.returncode == 130, done.stdout + done.stderr
    assert len(done.stderr.splitlines()) <= 1, done.stderr
