"""Adaptive seeds by the command line: two contestants that do not differ clearly."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fakes import Lab, rldyno

STUDY = """\
contestants = ["numpy:eager", "torch:eager"]
algorithms = ["dqn"]
environments = ["CartPole-v1"]
seeds = { min = 2, max = 3 }

[budget]
steps = 5000
"""
SPEEDS = "numpy=claims:1000 torch=claims:1010"


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """With a torch that can be imported, as its interpreter must show, and nothing else."""
    lab = Lab(tmp_path)
    lab.study.write_text(STUDY)
    (tmp_path / "modules" / "torch").mkdir(parents=True)
    (tmp_path / "modules" / "torch" / "__init__.py").write_text("__version__ = '0'\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "modules"))
    return lab


def test_seeds_are_added_to_what_is_open(lab: Lab) -> None:
    done = lab.run(SPEEDS, "--toolchain", f"torch={lab.interpreter}")
    assert done.returncode == 0, done.stderr + done.stdout
    assert "interim check: 0 of 1 comparisons decided, 1 open" in done.stdout
    assert "adding 2 trials, seed 2" in done.stdout
    assert "no more seeds: the maximum number of seeds of the study has run" in done.stdout
    assert len(lab.trials()) == 6
    shown = rldyno("status", lab.out).stdout
    assert "6 trials: 6 done" in shown
    assert "adaptive seeds, 2 to 3: 2 interim checks, 0 comparisons decided, 1 open; stopped" in shown
    manifest = json.loads((lab.out / "manifest.json").read_text())
    assert [look["added"] for look in manifest["adaptive"]["looks"]] == [2, 0]
    again = lab.run(SPEEDS, "--toolchain", f"torch={lab.interpreter}")
    assert again.returncode == 0, again.stderr + again.stdout
    assert "all 6 trials have already ended" in again.stdout
    assert json.loads((lab.out / "manifest.json").read_text())["adaptive"] == manifest["adaptive"]
