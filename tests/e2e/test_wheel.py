"""The wheel in an empty environment, outside the checkout: what `pip install rldyno` gives a user."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.toolchain("numpy")

REPOSITORY = Path(__file__).parents[2]
STUDY = """\
title = "Tiny"
contestants = ["numpy:eager"]
algorithms = ["dqn"]
environments = ["CartPole-v1"]
seeds = 2

[budget]
steps = 600
"""


class Installed:
    """rldyno in an environment of its own, used from an empty folder."""

    def __init__(self, home: Path) -> None:
        self.folder = home / "elsewhere"
        self.folder.mkdir()
        self.bin = home / "venv" / "bin"
        call(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", home / "wheels", REPOSITORY)
        (wheel,) = (home / "wheels").glob("rldyno-*.whl")
        call(sys.executable, "-m", "venv", home / "venv")
        call(self.bin / "python", "-m", "pip", "install", "--quiet", wheel)

    def rldyno(self, *arguments: str) -> str:
        return call(self.bin / "rldyno", *arguments, folder=self.folder)

    def python(self, code: str) -> str:
        return call(self.bin / "python", "-c", code, folder=self.folder)


def call(*command: str | Path, folder: Path | None = None) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        [*map(str, command)], capture_output=True, text=True, cwd=folder, env=environment, timeout=500
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return Installed(tmp_path_factory.mktemp("wheel"))


def test_the_package_is_the_installed_one(installed: Installed) -> None:
    where = installed.python("import rldyno, rldyno_rig; print(rldyno.__file__, rldyno_rig.__file__)")
    assert all(path.startswith(str(installed.bin.parent)) for path in where.split())


def test_a_shipped_study_is_planned_by_its_name(installed: Installed) -> None:
    assert "quickstart" in installed.rldyno("studies")
    assert len(json.loads(installed.rldyno("plan", "quickstart", "--json"))["trials"]) == 30


def test_a_tiny_study_is_planned_run_and_reported(installed: Installed) -> None:
    (installed.folder / "tiny.toml").write_text(STUDY)
    assert len(json.loads(installed.rldyno("plan", "tiny.toml", "--json"))["trials"]) == 2
    printed = installed.rldyno("run", "tiny.toml", "--no-limits")
    assert "numpy:eager" in printed
    results = installed.folder / "results" / "tiny"
    assert (results / "report.html").stat().st_size > 100_000
    outcomes = [json.loads(path.read_text()) for path in results.glob("trials/*/outcome.json")]
    assert [outcome["status"] for outcome in outcomes] == ["done", "done"]
    assert len(list((results / "certificates").glob("*.json"))) == 2, "algorithm and shape"
    loaded = installed.python("import rldyno; print(rldyno.load('results/tiny').trials['status'].to_list())")
    assert loaded.strip() == "['done', 'done']"


def test_the_types_are_shipped(installed: Installed) -> None:
    installed.python(
        "import importlib.resources as r; assert r.files('rldyno').joinpath('py.typed').is_file()"
    )
