"""Processes of the lab's own modules."""

import subprocess
import sys
from pathlib import Path

import pytest

import rldyno
from rldyno.processes.lab import OWN_MODULE


@pytest.mark.parametrize("module", ["rldyno.trial.entry", "rldyno.limits.host", "rldyno.api.child"])
def test_files_of_the_working_directory_never_run(module: str, tmp_path: Path) -> None:
    for name in ("statistics", "json", "rldyno"):
        (tmp_path / f"{name}.py").write_text("print('code of the working directory')\nraise SystemExit(7)\n")
    command = [sys.executable, *OWN_MODULE, module, "--help"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "working directory" not in done.stdout
    assert done.returncode != 7


def test_every_module_is_started_without_the_working_directory_on_its_path() -> None:
    starters = [
        f"{path.name}: {line.strip()}"
        for path in Path(rldyno.__file__).parent.rglob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
        if '"-m"' in line and '"-I"' not in line and "*isolation" not in line and '"-P"' not in line
    ]
    assert starters == []
