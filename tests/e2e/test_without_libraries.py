"""A compute node without the libraries of reports and statistics runs trials all the same."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from fakes import Lab, outcome_of, rldyno

BLOCKER = Path(__file__).parents[1] / "workers" / "without_libraries"
LIBRARIES = "altair jinja2 pandas radon scipy tabulate tensorboardX vl_convert"


class LabWithoutLibraries(Lab):
    """Its processes cannot import these libraries."""

    missing = LIBRARIES

    def environment(self, behaviour: str) -> dict[str, str]:
        paths = [str(BLOCKER), os.environ.get("PYTHONPATH", "")]
        blocked = {"PYTHONPATH": os.pathsep.join(filter(None, paths)), "WITHOUT_LIBRARIES": self.missing}
        return super().environment(behaviour) | blocked


@pytest.fixture
def lab(tmp_path: Path) -> LabWithoutLibraries:
    return LabWithoutLibraries(tmp_path)


def test_trials_run_and_what_is_missing_is_reported(lab: LabWithoutLibraries) -> None:
    done = lab.run("good", "--with-report", "--tensorboard")
    assert done.returncode == 0, done.stderr
    assert [outcome_of(trial)["status"] for trial in lab.trials()] == ["done", "done"]
    assert "Traceback" not in done.stdout + done.stderr
    assert "fix: pip install tensorboardX" in done.stdout
    assert done.stdout.count("fix: pip install") >= 2, "the report needs a library too"


@pytest.mark.parametrize(
    ("missing", "command", "package"),
    [
        ("vl_convert", "report", "vl-convert-python"),
        ("altair", "report", "altair"),
        ("jinja2", "report", "jinja2"),
        ("tensorboardX", "tensorboard", "tensorboardX"),
    ],
)
def test_a_missing_library_is_one_message(tmp_path: Path, missing: str, command: str, package: str) -> None:
    lab = LabWithoutLibraries(tmp_path)
    lab.missing = missing
    assert lab.run("good").returncode == 0
    done: subprocess.CompletedProcess[str] = rldyno(command, lab.out, env=lab.environment("good"))
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert f"fix: pip install {package}" in done.stderr
