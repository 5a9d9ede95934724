"""Ctrl-C and kill -9 of lab, runner and worker: no orphan, nothing lost, the same command goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from fakes import PATIENCE_S, Lab, outcome_of, rldyno, wait_until, workers_in

from rldyno.records import trial_state

SLOW_SECOND = ".s1.=good:60"


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path, seeds=3)


def first_done_second_running(lab: Lab) -> tuple[subprocess.Popen[str], int]:
    """(the lab, the second trial's worker). Blocks follow the seeds: 0 is done, 1 runs, 2 is to come."""
    process = lab.start(SLOW_SECOND)
    wait_until(
        lambda: any(".s1." in os.fspath(trial) and workers_in(trial) for trial in lab.out.glob("trials/*"))
    )
    return process, workers_in(lab.out)[0]


def states(lab: Lab) -> list[str]:
    return [trial_state.trial_state(trial).name for trial in lab.trials()]


def finish(lab: Lab, first: dict[str, object]) -> None:
    done = lab.run("good")
    assert done.returncode == 0, done.stderr + done.stdout
    assert states(lab) == ["done"] * 3
    assert outcome_of(lab.trials()[0]) == first, "a finished trial was run again"
    assert workers_in(lab.out) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stopping_the_lab(lab: Lab, number: int) -> None:
    process, _ = first_done_second_running(lab)
    process.send_signal(number)
    assert process.wait(timeout=PATIENCE_S) == 130
    _, errors = process.communicate()
    assert errors.strip() == "stopped; run the same command to continue"
    assert workers_in(lab.out) == []
    assert states(lab) == ["done", "interrupted", "pending"]
    assert "1 done, 1 interrupted, 1 pending" in rldyno("status", lab.out).stdout
    finish(lab, outcome_of(lab.trials()[0]))
    assert (lab.trials()[1] / "attempts" / "1").is_dir()


def test_ctrl_c_reaches_the_whole_foreground_group(lab: Lab) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "rldyno", *map(str, lab.arguments())],
        env=lab.environment(SLOW_SECOND),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
    )
    wait_until(
        lambda: any(".s1." in os.fspath(trial) and workers_in(trial) for trial in lab.out.glob("trials/*"))
    )
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(timeout=PATIENCE_S) == 130
    assert process.communicate()[1].strip() == "stopped; run the same command to continue"
    assert workers_in(lab.out) == []
    finish(lab, outcome_of(lab.trials()[0]))


def test_killing_the_lab(lab: Lab) -> None:
    process, _ = first_done_second_running(lab)
    process.kill()
    process.wait()
    wait_until(lambda: not workers_in(lab.out))
    wait_until(lambda: states(lab) == ["done", "interrupted", "pending"])
    finish(lab, outcome_of(lab.trials()[0]))


def test_killing_the_runner(lab: Lab) -> None:
    process, worker = first_done_second_running(lab)
    runner = int(Path(f"/proc/{worker}/stat").read_text().rpartition(")")[2].split()[1])
    assert runner != process.pid
    os.kill(runner, signal.SIGKILL)
    output, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1
    assert "ended without an outcome" in output
    assert workers_in(lab.out) == []
    assert states(lab) == ["done", "interrupted", "done"]
    finish(lab, outcome_of(lab.trials()[0]))


def test_killing_the_worker(lab: Lab) -> None:
    process, worker = first_done_second_running(lab)
    os.kill(worker, signal.SIGKILL)
    output, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1
    assert "killed by SIGKILL" in output
    assert states(lab) == ["done", "failed", "done"]
    finish(lab, outcome_of(lab.trials()[0]))


@pytest.mark.parametrize("victims", [["lab"], ["runner"], ["runner", "lab"]], ids="-".join)
def test_an_orphan_of_the_worker_ends_too_whoever_is_killed(lab: Lab, victims: list[str]) -> None:
    """Where both are killed nobody is left who could end it: the next attempt does."""
    process = lab.start(".s0.=leaves_orphan .s1.=dozes good")
    wait_until(lambda: bool(list(lab.out.glob("trials/*/orphan.pid"))))
    (trial,) = (file.parent for file in lab.out.glob("trials/*/orphan.pid"))
    (runner,) = psutil.Process(process.pid).children()
    assert len(workers_in(trial)) == 2
    process.send_signal(signal.SIGSTOP)  # it must not start the next trial in between
    pids = {"lab": process.pid, "runner": runner.pid}
    for victim in victims:
        os.kill(pids[victim], signal.SIGKILL)
    process.send_signal(signal.SIGCONT)
    if len(victims) == 1:
        wait_until(lambda: not workers_in(trial))
    process.kill()
    process.communicate()
    wait_until(lambda: len(workers_in(lab.out)) == len(victims) - 1)
    done = lab.run("good")
    assert done.returncode == 0, done.stderr + done.stdout
    assert workers_in(lab.out) == []
