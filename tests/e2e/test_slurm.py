"""Runs on a real Slurm: a private one with two nodes, from packages that are installed or were fetched."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

from fakes import PATIENCE_S, wait_until
from slurm_lab import NODE_PATIENCE_S, Lab, ended

from private_slurm import REBOOTED, PrivateSlurm


def test_a_study_from_submission_to_report(tmp_path: Path, slurm: PrivateSlurm) -> None:
    lab = Lab(tmp_path, slurm, seeds=4)
    first = lab.run()
    assert first.returncode == 0, first.stdout + first.stderr
    assert lab.done() == 4
    assert (lab.out / "report.html").exists()
    nodes = [log.name for log in (lab.out / "slurm" / "logs").glob("*-0001-*.log")]
    assert len(nodes) == 4
    records = {path: path.read_bytes() for path in lab.out.glob("trials/*/outcome.json")}
    again = lab.run()
    assert again.returncode == 0
    assert "all 4 trials have already ended" in again.stdout
    assert {path: path.read_bytes() for path in records} == records


def test_the_user_may_log_out(tmp_path: Path, slurm: PrivateSlurm) -> None:
    """With adaptive seeds: waves of jobs, each submitted by the last job of the one before."""
    lab = Lab(tmp_path, slurm)
    text = (tmp_path / "study.toml").read_text().replace("seeds = 3", "seeds = { min = 2, max = 3 }")
    (tmp_path / "study.toml").write_text(text.replace('"numpy:eager"', '["numpy:eager"]'))
    left = lab.run("--detach")
    assert left.returncode == 0, left.stdout + left.stderr
    assert "2 trials are queued or running" in left.stdout
    assert " goes on " in lab.rldyno("status"), "now, or when they have ended"
    wait_until((lab.out / "report.html").exists, NODE_PATIENCE_S)
    assert lab.done() >= 2


def test_a_killed_lab_attaches_again(tmp_path: Path, slurm: PrivateSlurm) -> None:
    lab = Lab(tmp_path, slurm, seeds=4)
    first = lab.start("--no-report")
    lab.first_running()
    # On a busy machine a trial may run before the lab has noted its job: a unit test has that case.
    wait_until(lambda: bool(lab.jobs.latest()))
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    second = lab.run("--no-report")
    assert second.returncode == 0, second.stdout + second.stderr
    assert lab.done() == 4
    assert lab.attempts() == 0, "no trial was disturbed"
    assert max(len(lab.jobs.jobs_of(trial)) for trial in lab.jobs.latest()) == 1


def test_a_cancelled_job_is_submitted_again(tmp_path: Path, slurm: PrivateSlurm) -> None:
    lab = Lab(tmp_path, slurm, steps=20_000)
    process = lab.start("--no-report")
    job, _ = lab.first_running()
    slurm.run([slurm.program("scancel"), job])
    assert ended(process) == 0
    assert lab.done() == 3
    assert (
        f"job {job} ended (CANCELLED) without an outcome; submitting it again"
        in (tmp_path / "lab.log").read_text()
    )


def test_a_preempted_job_runs_its_trial_again(tmp_path: Path, slurm: PrivateSlurm) -> None:
    lab = Lab(tmp_path, slurm, seeds=2, steps=60_000)
    process = lab.start("--no-report")
    job, node = lab.first_running()
    urgent = ["--partition=urgent", f"--nodelist={node}", "--output=/dev/null", "--wrap=true"]
    slurm.run([slurm.program("sbatch"), *urgent])
    assert ended(process) == 0, (tmp_path / "lab.log").read_text()
    assert lab.done() == 2
    restarts = slurm.run([slurm.program("scontrol"), "show", "job", job])
    assert "Restarts=1" in restarts, "its node went to the urgent job"
    assert max(len(lab.jobs.jobs_of(trial)) for trial in lab.jobs.latest()) == 1


def test_a_requeued_job_runs_its_trial_again(tmp_path: Path, slurm: PrivateSlurm) -> None:
    lab = Lab(tmp_path, slurm, seeds=2, steps=20_000)
    process = lab.start("--no-report")
    job, _ = lab.first_running()
    slurm.run([slurm.program("scontrol"), "requeue", job])
    assert ended(process) == 0
    assert lab.done() == 2
    assert max(len(lab.jobs.jobs_of(trial)) for trial in lab.jobs.latest()) == 1


def test_a_node_and_the_controller_die(tmp_path: Path, slurm: PrivateSlurm) -> None:
    lab = Lab(tmp_path, slurm, seeds=4, steps=20_000)
    process = lab.start("--no-report")
    _, node = lab.first_running()
    slurm.kill_node(node)
    slurm.kill_controller()
    time.sleep(2)
    slurm.start_controller()
    slurm.start_node(node, REBOOTED)
    assert ended(process) == 0, (tmp_path / "lab.log").read_text()
    assert lab.done() == 4


def test_cancel(tmp_path: Path, slurm: PrivateSlurm) -> None:
    lab = Lab(tmp_path, slurm, steps=100_000)
    process = lab.start("--no-report")
    lab.first_running()
    assert "cancelled; finished trials are kept" in lab.rldyno("cancel")
    assert ended(process) == 1
    assert "the run was cancelled" in (tmp_path / "lab.log").read_text()
    wait_until(lab.nothing_runs, PATIENCE_S)
    assert "lost" in lab.rldyno("status")


def test_a_time_limit_ends_a_trial_with_its_reason(tmp_path: Path, slurm: PrivateSlurm) -> None:
    lab = Lab(tmp_path, slurm, seeds=1, steps=100_000_000)
    run = lab.run("--no-report", changes=("time=00:01:00", "warn_s=50"))
    assert run.returncode == 1, run.stdout + run.stderr
    (file,) = lab.out.glob("trials/*/outcome.json")
    outcome = json.loads(file.read_text())
    assert (outcome["status"], outcome["reason"]) == ("failed", "killed")
    assert "time limit of its job" in outcome["message"]
