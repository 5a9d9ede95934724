"""Event files that grow while trials run hold the same points as those written at the end."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from event_files import read_events
from rldyno.cli import app
from rldyno.errors import Problem
from rldyno.launch.launcher import EndedTrial, PreparedTrial, RunningTrial
from rldyno.records.attempts import TRIAL_LOCK
from rldyno.records.csv_files import GrowingCsv, read_csv
from rldyno.records.locks import locked
from rldyno.records.trial_records import read_trial
from rldyno.results import tensorboard
from rldyno.results.event_file import FOLDER
from rldyno.session import live_events
from rldyno.session.live_events import WithEvents
from rldyno_rig import schema
from synthetic import NUMPY, Shape, write_results

FILES = (schema.EPISODES_FILE, schema.PROGRESS_FILE, schema.SAMPLES_FILE)
SHAPE = Shape(contestants=[NUMPY], algorithms=["dqn"], seeds=1, sample_hz=3, steps=40_000)

Scalar = tuple[str, int, float]


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results of one trial, with the event file that is written at the end."""
    root = write_results(tmp_path_factory.mktemp("live") / "results", SHAPE)
    tensorboard.write_all(root)
    return root


def event_files(root: Path) -> list[Path]:
    return sorted((root / FOLDER).rglob("*tfevents*"))


def scalars(path: Path) -> list[Scalar]:
    return sorted(
        (value.tag, event.step, value.simple_value)
        for event in read_events(path)
        for value in event.summary.value
    )


class Replay:
    """A trial directory in which the records of an ended trial appear bit by bit."""

    def __init__(self, ended: Path, root: Path) -> None:
        shutil.copytree(ended, root, ignore=shutil.ignore_patterns(FOLDER))
        self.root = root
        (self.home,) = (root / "trials").iterdir()
        self.whole = {name: (self.home / name).read_bytes() for name in FILES}
        self.outcome = (self.home / schema.OUTCOME_FILE).read_bytes()
        (self.home / schema.OUTCOME_FILE).unlink()
        for name in FILES:
            (self.home / name).unlink()

    def grow(self, rng: np.random.Generator) -> Iterator[None]:
        """Each file at its own pace, cut anywhere: in the middle of a line, of a number."""
        written = dict.fromkeys(FILES, 0)
        while any(written[name] < len(self.whole[name]) for name in FILES):
            for name in FILES:
                more = int(rng.integers(0, len(self.whole[name]) // 8))
                written[name] = min(len(self.whole[name]), written[name] + more)
                (self.home / name).write_bytes(self.whole[name][: written[name]])
            yield

    def end(self) -> None:
        (self.home / schema.OUTCOME_FILE).write_bytes(self.outcome)


@pytest.mark.parametrize("seed", range(4))
def test_a_file_that_grew_holds_the_same_points(ended: Path, tmp_path: Path, seed: int) -> None:
    replay = Replay(ended, tmp_path / "results")
    events = tensorboard.LiveEvents(replay.root / FOLDER, pytest.fail)
    counts = []
    with locked(replay.home / TRIAL_LOCK):
        for _ in replay.grow(np.random.default_rng(seed)):
            events.advance(replay.home)
            counts.append(sum(len(scalars(path)) for path in event_files(replay.root)))
    replay.end()
    events.finish(replay.home)
    assert counts == sorted(counts)
    assert 0 < counts[len(counts) // 2] < counts[-1], "it did not grow"
    (expected,), (found,) = event_files(ended), event_files(replay.root)
    assert scalars(found) == scalars(expected)
    assert tensorboard.write_all(replay.root)[:2] == (0, 1), "a whole file is kept"
    assert sorted(path.name for path in found.parent.iterdir()) == [found.name]


def test_a_file_that_a_crash_left_behind_is_made_anew(ended: Path, tmp_path: Path) -> None:
    replay = Replay(ended, tmp_path / "results")
    with locked(replay.home / TRIAL_LOCK):
        for _ in replay.grow(np.random.default_rng(0)):
            pass
        killed = tensorboard.LiveEvents(replay.root / FOLDER, pytest.fail)
        killed.advance(replay.home)
        with pytest.raises(Problem, match="another process"):
            tensorboard.LiveEvents(replay.root / FOLDER, pytest.fail)
        killed.close()
        (torn,) = event_files(replay.root)
        torn.write_bytes(torn.read_bytes()[:-3])  # the lab was killed here
        later = tensorboard.LiveEvents(replay.root / FOLDER, pytest.fail)
        later.advance(replay.home)
        read_events(torn)
    torn.write_bytes(torn.read_bytes()[:-3])  # and here, after the trial's end
    replay.end()
    os.utime(torn, (2**31, 2**31))
    assert tensorboard.write_all(replay.root)[:2] == (1, 0)
    assert scalars(*event_files(replay.root)) == scalars(*event_files(ended))


def test_another_attempt_begins_another_file(ended: Path, tmp_path: Path) -> None:
    replay = Replay(ended, tmp_path / "results")
    events = tensorboard.LiveEvents(replay.root / FOLDER, pytest.fail)
    with locked(replay.home / TRIAL_LOCK):
        growing = replay.grow(np.random.default_rng(1))
        for _ in range(4):
            next(growing)
        events.advance(replay.home)
        (replay.home / "attempts" / "1").mkdir(parents=True)
        for _ in replay.grow(np.random.default_rng(2)):
            events.advance(replay.home)
    outcome = json.loads(replay.outcome)
    (replay.home / schema.OUTCOME_FILE).write_text(json.dumps({**outcome, "attempt": 2}))
    events.finish(replay.home)
    assert scalars(*event_files(replay.root)) == scalars(*event_files(ended))


def test_damage_is_reported_once_and_stops_nothing(ended: Path, tmp_path: Path) -> None:
    replay = Replay(ended, tmp_path / "results")
    said: list[str] = []
    events = tensorboard.LiveEvents(replay.root / FOLDER, said.append)
    with locked(replay.home / TRIAL_LOCK):
        (replay.home / schema.PROGRESS_FILE).write_text("nonsense\n")
        for _ in range(3):
            events.advance(replay.home)
    assert len(said) == 1
    assert replay.home.name in said[0]


def test_a_session_adds_to_the_files_beside_its_own_watcher(
    ended: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_events, "EVERY_S", 0.0)
    replay = Replay(ended, tmp_path / "results")
    seen: list[str] = []

    class Own:
        def starting(self, trial: PreparedTrial) -> PreparedTrial:
            seen.append("starting")
            return replace(trial)

        def tick(self, running: object) -> None:
            seen.append("tick")

        def ended(self, trial: EndedTrial) -> None:
            seen.append("ended")

    watcher = WithEvents(Own(), tensorboard.LiveEvents(replay.root / FOLDER, pytest.fail))
    trial = watcher.starting(PreparedTrial(read_trial(replay.home), replay.home))
    with locked(replay.home / TRIAL_LOCK):
        for _ in replay.grow(np.random.default_rng(3)):
            watcher.tick([RunningTrial(trial)])
    assert event_files(replay.root), "nothing was written while it ran"
    replay.end()
    watcher.ended(EndedTrial(trial, 1.0, 0, ""))
    assert {"starting", "tick", "ended"} == set(seen)
    assert scalars(*event_files(replay.root)) == scalars(*event_files(ended))


def test_portions_of_a_record_file_are_the_whole(ended: Path, tmp_path: Path) -> None:
    (home,) = (ended / "trials").iterdir()
    data = (home / schema.PROGRESS_FILE).read_bytes()
    copy = tmp_path / "progress.csv"
    growing = GrowingCsv(copy, schema.PROGRESS_COLUMNS)
    parts = [growing.new_rows()]
    for end in (3, 200, 201, len(data) // 2, len(data) - 1, len(data)):
        copy.write_bytes(data[:end])
        parts.append(growing.new_rows())
    assert len(parts[0]) == 0
    whole = read_csv(home / schema.PROGRESS_FILE, schema.PROGRESS_COLUMNS)
    assert pl.concat(parts).equals(whole)
    copy.write_bytes(data + b"1,2,oops\n")
    with pytest.raises(Problem, match=r"progress.csv"):
        growing.new_rows()


def test_follow_without_a_run_writes_what_is_missing_and_ends(ended: Path, tmp_path: Path) -> None:
    root = tmp_path / "results"
    shutil.copytree(ended, root, ignore=shutil.ignore_patterns(FOLDER))
    done = CliRunner().invoke(app, ["tensorboard", str(root), "--follow"], catch_exceptions=False)
    assert done.exit_code == 0
    assert len(event_files(root)) == 1


@pytest.mark.slow
def test_status_follows_a_run_until_it_ends(ended: Path, tmp_path: Path) -> None:
    """In plain lines, for it is no terminal; it ends by itself when the run does."""
    replay = Replay(ended, tmp_path / "results")
    command = [sys.executable, "-u", "-m", "rldyno", "status", str(replay.root), "--follow"]
    with locked(replay.root / "run.lock"), locked(replay.home / TRIAL_LOCK):
        following = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert following.stdout
        first = following.stdout.readline()
        working = following.stdout.readline()
        replay.end()
    rest, _ = following.communicate(timeout=60)
    assert first == "1 trials: 1 running\n"
    assert "working here" in working
    assert f"[1/1] {replay.home.name}: done" in rest
    assert rest.splitlines()[-1] == "1 trials: 1 done"
    assert following.returncode == 0


@pytest.mark.slow
def test_ctrl_c_ends_following_without_a_word(ended: Path, tmp_path: Path) -> None:
    replay = Replay(ended, tmp_path / "results")
    for command in ("status", "tensorboard"):
        arguments = [sys.executable, "-u", "-m", "rldyno", command, str(replay.root), "--follow"]
        with locked(replay.root / "run.lock"):
            following = subprocess.Popen(
                arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
            )
            assert following.stdout
            following.stdout.readline()
            following.send_signal(2)
            _, errors = following.communicate(timeout=60)
        # Python ends itself by the signal where it came while generated code ran; a shell shows 130 for both.
        assert following.returncode in (130, -signal.SIGINT)
        assert errors == ""
