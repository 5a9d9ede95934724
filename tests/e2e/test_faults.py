"""Workers that misbehave: each leaves one clear outcome, and no process."""

from __future__ import annotations

import contextlib
import json
import signal
from pathlib import Path

import pytest
from fakes import PATIENCE_S, make_trial, outcome_of, rldyno, start, wait_until, workers_in

from rldyno.records import csv_files, status, trial_state
from rldyno_rig import schema


@pytest.mark.parametrize(
    ("behaviour", "reason", "message", "tail"),
    [
        ("dies", "crashed", "exited with code 3", "about to die"),
        ("dies:loud", "crashed", "exited with code 1: RuntimeError: the matrix is not a matrix", "Traceback"),
        ("killed", "killed", "killed by SIGKILL from outside (it held ", ""),
        ("segfault", "killed", "killed by SIGSEGV", "Fatal Python error: Segmentation fault"),
        ("hangs", "hung", "no progress for 2 s", ""),
        ("dozes", "hung", "no progress for 2 s", "in dozes"),
        ("nan", "nan", "the loss became NaN at update 25", ""),
        ("garbage_then_dies", "crashed", "exited with code 9", "boom"),
        ("garbage_result", "crashed", "ended without a result: result.json is damaged", ""),
        ("wrong_result", "crashed", "ended without a usable result", ""),
        ("no_result", "crashed", "ended without a result", ""),
        ("floods", "killed", "worker.log grew beyond 64 MiB", ""),
    ],
)
def test_bad_workers(tmp_path: Path, behaviour: str, reason: str, message: str, tail: str) -> None:
    directory = make_trial(tmp_path, behaviour, hang_timeout_s=2.0 if reason == "hung" else 30.0)
    done = rldyno("trial", directory)
    outcome = outcome_of(directory)
    assert (done.returncode, outcome["status"], outcome["reason"]) == (1, "failed", reason)
    assert outcome["message"].startswith(message)
    assert tail in outcome["log_tail"]
    assert all(line.isprintable() for line in outcome["log_tail"].replace("\t", " ").splitlines())
    assert f"failed ({reason})" in done.stdout
    assert done.stderr == ""
    assert workers_in(directory) == []


def test_garbage_on_stdout_harms_nothing(tmp_path: Path) -> None:
    directory = make_trial(tmp_path, "garbage_output")
    assert rldyno("trial", directory).returncode == 0
    assert outcome_of(directory)["reason"] == "steps"
    assert b"\xff\xfe" in (directory / schema.LOG_FILE).read_bytes()


def test_torn_record_is_read_without_its_last_line(tmp_path: Path) -> None:
    directory = make_trial(tmp_path, "torn")
    assert rldyno("trial", directory).returncode == 0
    rows = csv_files.read_csv(directory / schema.PROGRESS_FILE, schema.PROGRESS_COLUMNS)
    assert rows.height >= 2
    assert rows["step"].null_count() == 0


def test_an_orphan_in_a_session_of_its_own_is_ended_with_the_trial(tmp_path: Path) -> None:
    directory = make_trial(tmp_path, "leaves_orphan:0.1")
    assert rldyno("trial", directory).returncode == 0
    assert (directory / "orphan.pid").exists()
    assert workers_in(directory) == []


def test_a_child_that_escapes_its_group_is_ended_too(tmp_path: Path) -> None:
    directory = make_trial(tmp_path, "leaves_child")
    assert rldyno("trial", directory).returncode == 0
    child = int((directory / "child.pid").read_text())
    wait_until(lambda: not Path(f"/proc/{child}").exists())


def test_missing_interpreter(tmp_path: Path) -> None:
    directory = make_trial(tmp_path, "good", interpreter="/nonexistent/python")
    assert rldyno("trial", directory).returncode == 1
    outcome = outcome_of(directory)
    assert outcome["reason"] == "absent"
    assert outcome["message"] == "cannot start /nonexistent/python: No such file or directory"


def test_not_a_trial_directory(tmp_path: Path) -> None:
    done = rldyno("trial", tmp_path / "nothing")
    assert done.returncode == 1
    assert "trial.json does not exist" in done.stderr
    assert "Traceback" not in done.stderr


def test_cpu_that_does_not_exist(tmp_path: Path) -> None:
    done = rldyno("trial", make_trial(tmp_path, "good"), "--cpus", "4000")
    assert done.returncode == 2
    assert "may not use CPU 4000" in done.stderr


def test_two_runners_on_one_trial(tmp_path: Path) -> None:
    directory = make_trial(tmp_path, "good:60")
    first = start("trial", directory)
    wait_until((directory / schema.PROGRESS_FILE).exists)
    second = rldyno("trial", directory)
    assert second.returncode == 1
    assert f"another process (pid {first.pid}, since 20" in second.stderr
    assert trial_state.trial_state(directory).name == status.RUNNING
    first.terminate()
    assert first.wait(timeout=PATIENCE_S) == 130


def test_done_stays_done_and_failed_is_tried_again(tmp_path: Path) -> None:
    directory = make_trial(tmp_path, "dies")
    trial = json.loads((directory / schema.TRIAL_FILE).read_text())
    rldyno("trial", directory)
    (directory / schema.TRIAL_FILE).write_text(json.dumps({**trial, "variables": {"FAKE_WORKER": "good"}}))
    assert rldyno("trial", directory).returncode == 0
    outcome = outcome_of(directory)
    assert (outcome["status"], outcome["attempt"]) == ("done", 2)
    assert "about to die" in (directory / "attempts" / "1" / schema.LOG_FILE).read_text()
    assert rldyno("trial", directory).returncode == 0
    assert outcome_of(directory) == outcome


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_trial_leaves_no_outcome(tmp_path: Path, number: int) -> None:
    directory = make_trial(tmp_path, "good:30")
    runner = start("trial", directory)
    wait_until(
        lambda: bool(csv_files.last_rows(directory / schema.PROGRESS_FILE, schema.PROGRESS_COLUMNS, 1))
    )
    runner.send_signal(number)
    assert runner.wait(timeout=PATIENCE_S) == 130
    assert workers_in(directory) == []
    assert trial_state.trial_state(directory).name == status.INTERRUPTED


def test_a_trial_near_the_time_limit_of_its_job_ends_with_its_records(tmp_path: Path) -> None:
    directory = make_trial(tmp_path, "good:30")
    runner = start("trial", directory)
    wait_until(
        lambda: bool(csv_files.last_rows(directory / schema.PROGRESS_FILE, schema.PROGRESS_COLUMNS, 1))
    )
    runner.send_signal(signal.SIGUSR1)
    assert runner.wait(timeout=PATIENCE_S) == 1
    assert workers_in(directory) == []
    outcome = outcome_of(directory)
    assert (outcome["status"], outcome["reason"]) == ("failed", "killed")
    assert "time limit of its job" in outcome["message"]


def test_killed_runner_takes_the_worker_along(tmp_path: Path) -> None:
    directory = make_trial(tmp_path, "good:30")
    runner = start("trial", directory)
    wait_until(lambda: bool(workers_in(directory)))
    runner.kill()
    runner.wait()
    wait_until(lambda: not workers_in(directory), 5)
    assert trial_state.trial_state(directory).name == status.INTERRUPTED


def test_disk_full_during_a_trial(tmp_path: Path, small_disk: Path) -> None:
    directory = make_trial(small_disk, "good:30")
    runner = start("trial", directory)
    wait_until(lambda: bool(workers_in(directory)))
    with contextlib.suppress(OSError), (small_disk / "ballast").open("wb", buffering=0) as ballast:
        while True:
            ballast.write(b"x" * 4096)
    assert runner.wait(timeout=PATIENCE_S) == 3
    _, errors = runner.communicate()
    assert "cannot write the records of fake-trial: No space left on device" in errors
    assert "fix: free some space" in errors
    assert workers_in(directory) == []
    (small_disk / "ballast").unlink()
    trial = json.loads((directory / schema.TRIAL_FILE).read_text())
    (directory / schema.TRIAL_FILE).write_text(json.dumps({**trial, "variables": {"FAKE_WORKER": "good"}}))
    assert rldyno("trial", directory).returncode == 0
