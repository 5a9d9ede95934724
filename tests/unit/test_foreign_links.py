"""A results directory of somebody else may hold links: nothing behind them is read, moved or written."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rldyno.cli import app
from rldyno.errors import Problem
from rldyno.records.attempts import finish_moves, put_aside, restore
from rldyno.records.directory import ResultsDirectory
from rldyno.records.slurm_jobs import SlurmFolder
from rldyno.results.event_file import GrowingEventFile, growing_mark
from synthetic import NUMPY, Shape, write_results

SMALL = Shape(contestants=[NUMPY], algorithms=("dqn",), seeds=2, steps=1000, sample_hz=2)
PLACES = (
    *(
        "trials",
        "certificates",
        "curves",
        "slurm",
        "slurm/logs",
        "slurm/logs/1.log",
        "trials/{}",
        "trials/{}/workers",
    ),
    *(
        "trials/{}/attempts",
        "trials/{}/attempts/1",
        "trials/{}/attempts/.leaving",
        "trials/{}/attempts/.returning",
    ),
)


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    folder = tmp_path / "victim"
    folder.mkdir()
    (folder / "diary.txt").write_text("dear diary")
    return folder


@pytest.fixture
def trial(tmp_path: Path) -> Path:
    home = tmp_path / "trials" / "t"
    (home / "attempts").mkdir(parents=True)
    (home / "episodes.csv").write_text("episode\n")
    return home


def untouched(victim: Path) -> bool:
    return [path.name for path in victim.iterdir()] == ["diary.txt"]


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
def test_a_link_is_named_and_nothing_behind_it_changes(place: str, tmp_path: Path, victim: Path) -> None:
    root = write_results(tmp_path / "foreign", SMALL)
    trial = min((root / "trials").iterdir())
    link = root / place.format(trial.name)
    link.parent.mkdir(parents=True, exist_ok=True)
    if link.exists():
        link.rename(tmp_path / "away")
    link.symlink_to(victim, target_is_directory=True)
    (trial / "outcome.json").unlink(missing_ok=True)  # so that the trial has to run again
    with pytest.raises(Problem, match="is a link"):
        ResultsDirectory(root).read_manifest()
    given = ["--no-verify", "--no-limits", "--no-report", "--toolchain", f"numpy={sys.executable}"]
    for command in (["run", str(root), *given], ["check", str(root)], ["cancel", str(root)]):
        found = CliRunner().invoke(app, command)
        assert "is a link" in f"{found.output}{found.exception}"
    assert untouched(victim)


@pytest.mark.parametrize(
    ("name", "move"),
    [
        ("attempts", put_aside),
        ("attempts/.leaving", put_aside),
        ("attempts/.returning", put_aside),
        ("attempts/.returning", lambda trial: finish_moves(trial.parent)),
        ("attempts/1", lambda trial: restore(trial, 1)),
    ],
)
def test_an_attempt_is_never_moved_through_a_link(
    name: str, move: Callable[[Path], object], trial: Path, victim: Path
) -> None:
    link = trial / name
    if link.is_dir():
        link.rmdir()
    link.symlink_to(victim, target_is_directory=True)
    with pytest.raises(Problem, match="is a link"):
        move(trial)
    assert untouched(victim)


@pytest.mark.slow
@pytest.mark.parametrize("depth", range(3))
def test_event_files_are_written_into_no_linked_folder(depth: int, tmp_path: Path, victim: Path) -> None:
    root = write_results(tmp_path / "foreign", SMALL)
    event = made_event(root)
    link = event.parents[depth]
    shutil.rmtree(root / "tensorboard")
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(victim, target_is_directory=True)
    found = CliRunner().invoke(app, ["tensorboard", str(root)])
    assert "is a link" in f"{found.output}{found.exception}"
    assert untouched(victim)


def made_event(root: Path) -> Path:
    assert CliRunner().invoke(app, ["tensorboard", str(root)]).exit_code == 0
    return min(root.glob("tensorboard/*/*/events*"))


@pytest.mark.slow
def test_event_files_take_the_place_of_links(tmp_path: Path, victim: Path) -> None:
    root = write_results(tmp_path / "foreign", SMALL)
    event, diary = made_event(root), victim / "diary.txt"
    event.unlink()
    temporary = event.with_name(f".{event.name.replace('tfevents', 'part')}")
    temporary.symlink_to(diary)
    assert made_event(root) == event
    event.unlink()
    for link in (event, growing_mark(event)):
        link.symlink_to(diary)
    GrowingEventFile(event, 0.0)
    assert not event.is_symlink()
    assert not growing_mark(event).is_symlink()
    assert diary.read_text() == "dear diary"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["export", "export/tables"])
def test_tables_are_exported_into_no_linked_folder(name: str, tmp_path: Path, victim: Path) -> None:
    root = write_results(tmp_path / "foreign", SMALL)
    link = root / name
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(victim, target_is_directory=True)
    found = CliRunner().invoke(app, ["export", str(root), "--tables"])
    assert isinstance(found.exception, Problem)
    assert "is a link" in found.exception.message
    assert untouched(victim)


def test_a_request_to_cancel_takes_the_place_of_a_link(tmp_path: Path, victim: Path) -> None:
    folder = SlurmFolder(tmp_path)
    folder.make()
    (folder.home / "cancelled").symlink_to(victim / "new")
    folder.ask_to_cancel()
    assert folder.cancelled
    assert untouched(victim)
