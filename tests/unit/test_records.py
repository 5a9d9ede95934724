"""Records survive crashes: whole or old, never a part; a torn end is dropped, real damage is named."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rldyno.errors import Problem
from rldyno.records import attempts, csv_files, directory, files, locks, status, trial_state
from rldyno_rig import schema
from rldyno_rig.contestant import Contestant
from rldyno_rig.trial_file import Budget, TrialFile

COLUMNS = ("time_ns", "step", "return_mean")
HEADER = "time_ns,step,return_mean\n"


def test_json_round_trip_leaves_nothing_else(tmp_path: Path) -> None:
    files.write_json(tmp_path / "a.json", {"x": [1, None, "é"]})
    assert files.read_json(tmp_path / "a.json") == {"x": [1, None, "é"]}
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.json"]


def test_failed_write_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.json"
    files.write_json(path, {"old": 1})

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        files.write_json(path, {"new": 1})
    assert json.loads(path.read_text()) == {"old": 1}
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.json"]


def test_json_refuses_nan(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        files.write_json(tmp_path / "a.json", {"x": float("nan")})


@pytest.mark.parametrize("content", [b"", b'{"a": 1', b"[1]", b"\xff\xfe\x00"])
def test_damaged_json_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "outcome.json"
    path.write_bytes(content)
    with pytest.raises(Problem, match=r"outcome\.json is damaged"):
        files.read_json(path)


def test_csv_types_and_gaps(tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    path.write_text(HEADER + "1,2,\n3,4,5.5\n9007199254740993,5,nan\n")
    frame = csv_files.read_csv(path, COLUMNS)
    assert frame["return_mean"].to_list()[:2] == [None, 5.5]
    assert frame["time_ns"].to_list() == [1, 3, 9007199254740993]


@pytest.mark.parametrize("tail", ["", "7", "7,8", "7,8,9", "7,8,9\n\0\0\0\0", "\0\0"])
def test_torn_end_is_dropped(tmp_path: Path, tail: str) -> None:
    path = tmp_path / "p.csv"
    path.write_text(HEADER + "1,2,3.0\n" + tail)
    expected = [1, 7] if "\n" in tail else [1]
    assert csv_files.read_csv(path, COLUMNS)["time_ns"].to_list() == expected


@pytest.mark.slow
@given(st.lists(st.tuples(st.integers(0, 2**62), st.integers(0, 2**40), st.none() | st.floats(-1e6, 1e6))))
def test_cutting_a_file_anywhere_loses_only_what_was_cut(
    tmp_path_factory: pytest.TempPathFactory, rows
) -> None:
    path = tmp_path_factory.mktemp("cut") / "p.csv"
    lines = [f"{a},{b},{'' if c is None else repr(c)}\n" for a, b, c in rows]
    content = (HEADER + "".join(lines)).encode()
    for cut in {0, 1, len(HEADER), len(content) // 2, len(content) - 1, len(content)}:
        path.write_bytes(content[: max(0, cut)])
        whole = max(0, content[: max(0, cut)].count(b"\n") - 1)
        assert csv_files.read_csv(path, COLUMNS)["time_ns"].to_list() == [a for a, _, _ in rows[:whole]]


@pytest.mark.parametrize("bad", ["7,8", "7,8,9,10", "x,8,9", "7.5,8,9", "7,8,abc"])
def test_damage_in_the_middle_names_file_and_line(tmp_path: Path, bad: str) -> None:
    path = tmp_path / "p.csv"
    path.write_text(HEADER + f"1,2,3\n{bad}\n4,5,6\n")
    with pytest.raises(Problem, match=r"p\.csv:3: damaged line"):
        csv_files.read_csv(path, COLUMNS)


def test_lines_whose_faults_cancel_are_still_found(tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    path.write_text(HEADER + "1,2\n1,2,3,4\n")
    with pytest.raises(Problem, match=r"p\.csv:2: damaged line"):
        csv_files.read_csv(path, COLUMNS)


def test_a_file_from_before_a_column_was_added_has_nothing_in_it(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("time_ns,return_mean\n1,2.5\n2,\n")
    frame = csv_files.read_csv(tmp_path / "p.csv", COLUMNS)
    assert frame.rows() == [(1, None, 2.5), (2, None, None)]
    (tmp_path / "p.csv").write_text("time_ns,return_mean\n1,2.5,9\n2\n")
    with pytest.raises(Problem, match=r"p\.csv:2: damaged line"):
        csv_files.read_csv(tmp_path / "p.csv", COLUMNS)


def test_other_header_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    path.write_text("a,b,c\n1,2,3\n")
    with pytest.raises(Problem, match=r"p\.csv:1: the header"):
        csv_files.read_csv(path, COLUMNS)


def test_missing_and_empty_files_have_no_rows(tmp_path: Path) -> None:
    (tmp_path / "empty.csv").touch()
    for name in ("missing.csv", "empty.csv"):
        frame = csv_files.read_csv(tmp_path / name, COLUMNS)
        assert (frame.height, tuple(frame.columns)) == (0, COLUMNS)


def test_last_rows_of_a_growing_file(tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    path.write_text(HEADER + "".join(f"{i},{i},\n" for i in range(1000)) + "99")
    assert csv_files.last_rows(path, COLUMNS, 2) == [
        {"time_ns": 998.0, "step": 998.0},
        {"time_ns": 999.0, "step": 999.0},
    ]
    assert csv_files.last_rows(tmp_path / "none.csv", COLUMNS, 2) == []


def test_lock_excludes_other_processes_and_names_the_holder(tmp_path: Path) -> None:
    path = tmp_path / "run.lock"
    other = (
        "import sys; from pathlib import Path; from rldyno.records import locks\n"
        "try:\n    with locks.locked(Path(sys.argv[1]), 0): print('got it')\n"
        "except locks.LockedError as locked: print(locked)"
    )

    def try_elsewhere() -> str:
        done = subprocess.run(
            [sys.executable, "-c", other, str(path)], capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    assert locks.lock_holder(path) is None
    with locks.locked(path):
        assert try_elsewhere().startswith(f"pid {os.getpid()}, since 20")
        assert (locks.lock_holder(path) or {})["pid"] == os.getpid()
    assert locks.lock_holder(path) is None
    assert try_elsewhere() == "got it"


def test_states_follow_the_files(tmp_path: Path) -> None:
    def name() -> str:
        return trial_state.trial_state(tmp_path).name

    trial = TrialFile(
        tmp_path.name, Contestant("numpy", "eager"), "dqn", "CartPole-v1", 0, {}, Budget(steps=1)
    )
    files.write_json(tmp_path / schema.TRIAL_FILE, trial.to_json())
    assert name() == status.PENDING
    (tmp_path / schema.LOG_FILE).write_text("hello")
    assert name() == status.INTERRUPTED
    with locks.locked(tmp_path / attempts.TRIAL_LOCK):
        assert name() == status.RUNNING
    (tmp_path / schema.OUTCOME_FILE).write_text('{"status": "done"}')
    assert name() == status.DONE
    (tmp_path / schema.OUTCOME_FILE).write_text('{"status": "failed"}')
    assert name() == status.FAILED
    (tmp_path / schema.OUTCOME_FILE).write_text('{"status": "do')
    assert name() == status.INTERRUPTED
    assert "damaged" in trial_state.trial_state(tmp_path).note


def test_earlier_attempts_are_put_aside_and_numbered(tmp_path: Path) -> None:
    (tmp_path / schema.TRIAL_FILE).write_text("{}")
    assert attempts.put_aside(tmp_path) == 1
    for attempt in (1, 2):
        (tmp_path / schema.LOG_FILE).write_text(f"attempt {attempt}")
        (tmp_path / schema.OUTCOME_FILE).write_text("{}")
        assert attempts.put_aside(tmp_path) == attempt + 1
        assert (tmp_path / "attempts" / str(attempt) / schema.LOG_FILE).read_text() == f"attempt {attempt}"
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["attempts", schema.TRIAL_FILE]


def test_log_tail_is_short_and_printable(tmp_path: Path) -> None:
    path = tmp_path / "worker.log"
    path.write_bytes(b"first\n" * 100 + b"\x1b[2J\x00\xff last\n\n")
    tail = trial_state.log_tail(path, 3).split("\n")
    assert len(tail) == 3
    assert all(line.isprintable() for line in tail)
    assert tail[-1].endswith("last")


def test_not_a_results_directory(tmp_path: Path) -> None:
    with pytest.raises(Problem, match=r"is not a results directory"):
        directory.ResultsDirectory(tmp_path).read_manifest()


def test_many_files_in_one_read_keep_their_rows_apart(tmp_path: Path) -> None:
    header = ",".join(COLUMNS)
    width = len(COLUMNS) - 1
    texts = {
        "a": f"{header}\n1{',' * width}\n2{',' * width}\n",
        "torn": f"{header}\n3{',' * width}\n4",
        "short": f"{header}\n5\n",
        "odd": f"{header}\nsix{',' * width}\n",
        "z": f"{header}\n7{',' * width}\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    paths = [tmp_path / name for name in ("a", "missing", "torn", "short", "odd", "z")]
    frame, lengths, problems = csv_files.read_csvs(paths, COLUMNS, [COLUMNS[0]])
    assert frame.columns == [COLUMNS[0]]
    assert frame[COLUMNS[0]].to_list() == [1, 2, 3, 7]
    assert lengths == [2, 0, 1, 0, 0, 1]
    assert [problem.message.rpartition("/")[2] for problem in problems] == [
        "short:2: damaged line",
        "odd:2: damaged line",
    ]


def test_what_a_killed_process_was_writing_is_removed_and_nothing_else(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    own = files.owner()
    dead = own.replace(str(os.getpid()), str(ended.pid))
    elsewhere = "0" * 8 + dead[8:]
    names = {owner: f".limits.json.{owner}.tmp" for owner in (own, dead, elsewhere)}
    for name in (*names.values(), "limits.json", ".other.tmp"):
        (tmp_path / name).touch()
    files.remove_abandoned(tmp_path)
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {names[own], names[elsewhere], "limits.json", ".other.tmp"}
    assert not files.has_died(own)
