"""Teams in which one worker misbehaves: one clear outcome that names it, and no process."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest
from fakes import PATIENCE_S, make_trial, outcome_of, rldyno, start, wait_until, workers_in

from rldyno.records.attempts import put_aside
from rldyno.records.seal import altered_files
from rldyno_rig import hyper, schema
from rldyno_rig.algorithms.dqn import Dqn
from rldyno_rig.team.names import NATIVE
from rldyno_rig.team.result import TeamResult


def make_team(folder: Path, *behaviours: str, **changes: Any) -> Path:
    """A trial whose ranks behave like this."""
    return make_trial(
        folder, " / ".join(behaviours), workers=len(behaviours), **{"collective": NATIVE, **changes}
    )


@pytest.mark.parametrize(
    ("behaviours", "reason", "message", "tail"),
    [
        (("good:600", "killed"), "killed", "worker 1 was killed by SIGKILL from outside (", ""),
        (("killed", "good:600"), "killed", "worker 0 was killed by SIGKILL from outside (", ""),
        (("good:600", "segfault"), "killed", "worker 1 was killed by SIGSEGV", "Segmentation fault"),
        (("good:600", "dies"), "crashed", "worker 1 exited with code 3: about to die", "about to die"),
        (
            ("good:600", "raises"),
            "crashed",
            "worker 1 exited with code 1: ValueError: the matrix is not a matrix",
            "",
        ),
        (
            ("loses", "raises"),
            "crashed",
            "worker 1 exited with code 1: ValueError: the matrix is not a matrix",
            "",
        ),
        (("gives_up", "halts"), "hung", "worker 1 did not answer: TeamError: worker 0 lost", ""),
        (("good:600", "exhausts"), "crashed", "worker 1 exited with code 1: MemoryError", "Traceback"),
        (("good:600", "binds"), "crashed", "worker 1 exited with code 1: ValueError: port ", ""),
        (("good", "no_result"), "crashed", "worker 1 ended without a result", ""),
        (("good", "nan"), "nan", "worker 1: the loss became NaN at update 25", ""),
        (("good:600", "halts"), "hung", "worker 1 hung: no progress for 5 s; the other waits for it", ""),
        (("halts", "good:600"), "hung", "worker 0 hung: no progress for 5 s; the other waits for it", ""),
        (("good:600", "floods"), "killed", "worker.log of worker 1 grew beyond 64 MiB", "xxx"),
    ],
)
def test_one_bad_worker_ends_the_team(
    tmp_path: Path, behaviours: tuple[str, ...], reason: str, message: str, tail: str
) -> None:
    directory = make_team(tmp_path, *behaviours, hang_timeout_s=5.0 if "no progress" in message else 120.0)
    done = rldyno("trial", directory)
    outcome = outcome_of(directory)
    assert (done.returncode, outcome["status"], outcome["reason"]) == (1, "failed", reason)
    assert outcome["message"].startswith(message)
    assert tail in outcome["log_tail"]
    assert workers_in(directory) == []
    assert not (directory / "workers" / "meeting").exists()


def test_a_worker_that_never_comes_is_named(tmp_path: Path) -> None:
    directory = make_team(tmp_path, "trains", "dozes", hang_timeout_s=30.0)
    assert rldyno("trial", directory).returncode == 1
    outcome = outcome_of(directory)
    assert outcome["reason"] == "crashed"
    assert outcome["message"].startswith(
        "worker 0 exited with code 1: TeamError: worker 0 waited, but worker 1"
    )
    assert workers_in(directory) == []


def test_a_slower_worker_keeps_the_others_waiting_and_nothing_else(tmp_path: Path) -> None:
    uneven = ["trains_unevenly"] * 2
    quick = hyper.to_json(Dqn(learning_starts=32, batch_size=32))
    directory = make_team(tmp_path, *uneven, backend="numpy_", budget={"steps": 400}, hyper=quick)
    done = rldyno("trial", directory)
    outcome = outcome_of(directory)
    assert (done.returncode, outcome["status"]) == (0, "done"), outcome
    team = TeamResult.from_json(outcome["result"]["team"])
    assert team.reductions > 20
    first, later = team.wait_ns
    assert first > later, "the first waits for the later one"
    assert outcome["result"]["phases_ns"]["communicate"] >= first
    assert workers_in(directory) == []


def test_a_team_is_one_trial_and_its_files_are_sealed(tmp_path: Path) -> None:
    directory = make_team(tmp_path, "burns:1", "burns:2")
    assert rldyno("trial", directory).returncode == 0
    outcome = outcome_of(directory)
    assert outcome["cpu_s"] > 3.0
    first, second = outcome["affinity"]["workers"]
    assert len(first) == len(second) == 1
    assert first != second
    assert {"result.json", "workers/1/result.json", "workers/1/facts.json"} <= outcome["files"].keys()
    assert altered_files(directory, outcome["files"]) == []
    (directory / "workers" / "1" / "result.json").write_text("{}")
    assert altered_files(directory, outcome["files"]) == ["workers/1/result.json was altered"]


def test_the_memory_of_all_workers_counts(tmp_path: Path) -> None:
    alone = make_trial(tmp_path, "holds:100")
    assert rldyno("trial", alone).returncode == 0
    (tmp_path / "team").mkdir()
    directory = make_team(tmp_path / "team", "holds:100", "holds:100")
    assert rldyno("trial", directory).returncode == 0
    held, of_one = outcome_of(directory)["peak_rss_bytes"], outcome_of(alone)["peak_rss_bytes"]
    assert held > of_one + 80 * 2**20


def test_files_of_all_workers_are_put_aside(tmp_path: Path) -> None:
    directory = make_team(tmp_path, "good", "dies")
    assert rldyno("trial", directory).returncode == 1
    assert put_aside(directory) == 2
    assert (directory / "attempts" / "1" / "workers" / "1" / schema.LOG_FILE).exists()
    assert not (directory / "workers").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_no_worker_outlives_the_trial_runner(number: int, tmp_path: Path) -> None:
    directory = make_team(tmp_path, "good:600", "good:600")
    runner = start("trial", directory)
    wait_until((directory / "workers" / "1" / schema.PROGRESS_FILE).exists)
    runner.send_signal(number)
    runner.wait(timeout=PATIENCE_S)
    wait_until(lambda: workers_in(directory) == [])
    assert not (directory / schema.OUTCOME_FILE).exists()


def test_too_few_cpus_for_the_workers_is_one_sentence(tmp_path: Path) -> None:
    directory = make_team(tmp_path, "good", "good")
    done = rldyno("trial", directory, "--cpus", "0")
    assert done.returncode == 2
    assert "1 CPUs cannot be divided among 2 workers" in done.stderr
