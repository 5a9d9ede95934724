"""`rldyno check`: what it says next, and a manifest made again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rldyno.cli import app
from rldyno.errors import Problem
from rldyno.toolchains.contestants import chosen_contestants
from synthetic import NUMPY, Shape, write_results


def check(root: Path, *options: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["check", str(root), *options])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.output


def test_a_lost_manifest_is_rebuilt_beside_what_was_written_later(tmp_path: Path) -> None:
    root = write_results(tmp_path / "r", Shape(contestants=[NUMPY], seeds=1, steps=8000))
    (root / "study.toml").write_text(
        'contestants = ["numpy:eager"]\nalgorithms = ["dqn"]\nenvironments = ["CartPole-v1"]\n'
        "seeds = 1\nbudget = { steps = 8000 }\n"
    )
    (root / "report.html").write_text("a report")
    (root / "manifest.json").unlink()
    code, said = check(root)
    assert (code, f"rldyno check {root} --repair" in said) == (1, True)
    assert "rldyno run" not in said
    check(root, "--repair")
    rebuilt = json.loads((root / "manifest.json").read_text())
    assert rebuilt["rebuilt_at"]


def test_a_directory_of_something_else_is_not_to_be_run_or_repaired(tmp_path: Path) -> None:
    code, said = check(tmp_path)
    assert code == 1
    assert "give the directory that `rldyno run` wrote" in said
    assert "--repair" not in said


def test_an_unknown_contestant_lists_the_known_ones() -> None:
    with pytest.raises(Problem) as caught:
        chosen_contestants(["nunpy:eager"], "cpu")
    assert "did you mean 'numpy:eager'" in caught.value.message
    assert "torch:compile" in caught.value.fix


def test_a_guest_can_be_named_in_a_study_only() -> None:
    with pytest.raises(Problem, match=r"`script:train\.py` is a guest") as caught:
        chosen_contestants(["script:train.py"], "cpu")
    assert "study" in caught.value.fix
