"""`rldyno trial DIR` starts what the directory names: only of the user's own directories, unless told."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from rldyno.cli import app
from rldyno.errors import Problem
from rldyno.trial import entry
from synthetic import NUMPY, Shape, write_results


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The directories whose trials were started."""
    found: list[Path] = []
    monkeypatch.setattr(entry, "run_one", lambda directory, *_: found.append(directory) or 0)
    return found


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "trial.json").write_text("{}")
    return tmp_path


def trial(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["trial", *arguments])


def test_a_directory_of_ones_own_runs(home: Path, started: list[Path]) -> None:
    assert trial(str(home)).exit_code == 0
    assert started == [home]


def test_a_directory_of_another_user_is_refused_with_the_option_that_allows_it(
    home: Path, started: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: home.stat().st_uid + 1)
    refused = trial(str(home))
    assert isinstance(refused.exception, Problem)
    assert str(home) in refused.exception.message
    assert f"rldyno trial {home} --foreign" in str(refused.exception.fix)
    assert started == []
    assert trial(str(home), "--foreign").exit_code == 0
    assert started == [home]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_root_does_not_obey_the_files_of_others(home: Path, started: list[Path]) -> None:
    os.chown(home / "trial.json", 12345, -1)
    refused = trial(str(home))
    assert isinstance(refused.exception, Problem)
    assert "user 12345" in refused.exception.message
    assert started == []


@pytest.mark.parametrize(
    "change",
    [
        *({name: value} for name in ("cores", "workers") for value in (0, -1, 2**62)),
        *({"sample_hz": value} for value in (0, -5, 1e308, 1e-308)),
        *({"hang_timeout_s": value} for value in (-1, 1e308)),
        *({"variables": {name: "x"}} for name in ("", "A=B")),
    ],
    ids=str,
)
def test_values_that_no_trial_can_have_are_named_before_anything_starts(
    change: dict[str, object], tmp_path: Path
) -> None:
    root = write_results(tmp_path / "r", Shape(contestants=[NUMPY], algorithms=("dqn",), seeds=1, steps=300))
    home = next((root / "trials").iterdir())
    file = json.loads((home / "trial.json").read_text()) | {"interpreter": "/bin/true", **change}
    (home / "trial.json").write_text(json.dumps(file))
    (home / "outcome.json").unlink()
    with pytest.raises(Problem, match=f"`{next(iter(change))}` has a value that no trial can have"):
        entry.run_one(home, None, None)
