"""Runs on a real Slurm: a private one with two nodes, from packages that are installed or were fetched."""

from __future__ import annotations

import contextlib
import csv
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from fakes import PATIENCE_S, wait_until

from private_slurm import COMMAND, PrivateSlurm, fetch
from rldyno.records.slurm_jobs import SlurmFolder, SlurmJobs
from rldyno.records.trial_state import trial_state
from slurm_kills import is_trial_of

STUDY = """
contestants = "numpy:eager"
algorithms = "dqn"
environments = "CartPole-v1"
seeds = {seeds}
cores = 1
[budget]
steps = {steps}
"""
TEAM = """
contestants = "{contestant}"
algorithms = "dqn"
environments = "CartPole-v1"
seeds = 1
cores = 1
workers = 2
collective = {collectives}
[budget]
steps = {steps}
"""
SETTINGS = ("probe_cpu=false", "lost_after_s=1", "poll_s=0.5", "time=00:30:00")
NODE_PATIENCE_S = 300.0
"""A requeued job waits up to two minutes."""


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrivateSlurm]:
    programs = fetch()
    if isinstance(programs, str):
        pytest.skip(f"{programs}; this enables the tests: {COMMAND}")
    slurm = PrivateSlurm(tmp_path_factory.mktemp("slurm"), programs)
    try:
        slurm.up()
        yield slurm
    finally:
        slurm.down()
    assert slurm.processes() == []


class Lab:
    """A user of the cluster."""

    def __init__(self, folder: Path, slurm: PrivateSlurm, seeds: int = 3, steps: int = 300) -> None:
        self.folder, self.slurm, self.out = folder, slurm, folder / "out"
        self.toolchain: tuple[str, ...] = ("--toolchain", f"numpy={sys.executable}")
        self.changes: tuple[str, ...] = ()
        (folder / "study.toml").write_text(STUDY.format(seeds=seeds, steps=steps))

    def with_team(self, contestant: str, collectives: str, steps: int) -> Lab:
        text = TEAM.format(contestant=contestant, collectives=collectives, steps=steps)
        (self.folder / "study.toml").write_text(text)
        self.toolchain, self.changes = (), ("workers_per_node=1",)
        return self

    def command(self, *words: str, changes: tuple[str, ...] = ()) -> list[str]:
        command = [sys.executable, "-m", "rldyno", "run", "study.toml", "--out", str(self.out), "--no-verify"]
        command += ["--launcher", "slurm", *self.toolchain, *words]
        given = (*SETTINGS, *self.changes, *changes)
        return command + [word for change in given for word in ("--slurm", change)]

    def run(self, *words: str, changes: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
        return self.call(self.command(*words, changes=changes))

    def call(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=self.folder,
            env=self.slurm.environment,
            capture_output=True,
            text=True,
            timeout=NODE_PATIENCE_S,
            check=False,
        )

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        with (self.folder / "lab.log").open("wb") as log:
            return subprocess.Popen(
                self.command(*words),
                cwd=self.folder,
                env=self.slurm.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def rldyno(self, *words: str) -> str:
        return self.call([sys.executable, "-m", "rldyno", *words, str(self.out)]).stdout

    def done(self) -> int:
        return sum(trial_state(path).done for path in self.out.glob("trials/*"))

    def attempts(self) -> int:
        """That were interrupted."""
        return len(list(self.out.glob("trials/*/attempts/*")))

    @property
    def jobs(self) -> SlurmJobs:
        found = SlurmFolder(self.out).read()
        assert found is not None
        return found

    def first_running(self) -> tuple[str, str]:
        """(job, node) of a trial that runs now; waits for one."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            for process in self.slurm.processes():
                with contextlib.suppress(psutil.Error):
                    if is_trial_of(process, self.out):
                        told = process.environ()
                        job = f"{told['SLURM_ARRAY_JOB_ID']}_{told['SLURM_ARRAY_TASK_ID']}"
                        return job, told["SLURMD_NODENAME"]
            time.sleep(0.05)
        raise AssertionError(f"no trial runs: {(self.folder / 'lab.log').read_text()}")

    def workers(self) -> list[psutil.Process]:
        """Of teams, that train."""
        found = []
        for process in self.slurm.processes():
            with contextlib.suppress(psutil.Error):
                words = process.cmdline()
                if "train" in words and words[-1].startswith(str(self.out)):
                    found.append(process)
        return found

    def worker_on(self, node: str) -> psutil.Process | None:
        """Once it trains."""
        began = list(self.out.glob("trials/*/progress.csv"))
        return next(
            (one for one in self.workers() if one.environ()["SLURMD_NODENAME"] == node and began), None
        )

    def nothing_runs(self) -> bool:
        return not any(is_trial_of(process, self.out) for process in self.slurm.processes())


def ended(lab: subprocess.Popen[bytes]) -> int:
    return lab.wait(NODE_PATIENCE_S)


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
    assert "goes on when they have ended" in lab.rldyno("status")
    wait_until((lab.out / "report.html").exists, NODE_PATIENCE_S)
    assert lab.done() >= 2


def test_a_killed_lab_attaches_again(tmp_path: Path, slurm: PrivateSlurm) -> None:
    lab = Lab(tmp_path, slurm, seeds=4)
    first = lab.start("--no-report")
    lab.first_running()
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


def test_a_requeued_job_runs_its_trial_again(tmp_path: Path, slurm: PrivateSlurm) -> None:
    """As after preemption."""
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
    slurm.start_node(node)
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


def learning(out: Path) -> dict[str, list[str]]:
    """Trial → its actions and its episodes without their times."""
    found = {}
    for path in sorted(out.glob("trials/*")):
        rows = list(csv.reader((path / "episodes.csv").open()))
        timed = rows[0].index("time_ns")
        episodes = [",".join(row[:timed] + row[timed + 1 :]) for row in rows]
        found[path.name] = [(path / "actions.csv").read_text(), *episodes]
    return found


@pytest.mark.slow
@pytest.mark.toolchain("torch")
def test_workers_on_two_nodes_learn_the_same_as_on_one(tmp_path: Path, slurm: PrivateSlurm) -> None:
    lab = Lab(tmp_path, slurm).with_team("torch:eager", '["native", "host"]', 2000)
    run = lab.run("--no-report")
    assert run.returncode == 0, run.stdout + run.stderr
    for path in lab.out.glob("trials/*/outcome.json"):
        outcome = json.loads(path.read_text())
        assert outcome["affinity"]["nodes"] == ["n1", "n2"]
        assert outcome["probe"]["watched"] == 1
        assert outcome["cpu_s"] is None
        assert "watched 1 of 2 workers" in outcome["reasons"]["cpu_s"]
    here = tmp_path / "here"
    command = [sys.executable, "-m", "rldyno", "run", "study.toml", "--out", str(here), "--no-verify"]
    local = lab.call([*command, "--no-report", "--no-limits"])
    assert local.returncode == 0, local.stdout + local.stderr
    far, near = learning(lab.out), learning(here)
    assert len(far) == 2
    assert all(len(rows) > 10 for rows in far.values())
    assert far == near


@pytest.mark.slow
@pytest.mark.toolchain("numpy")
def test_a_worker_dies_on_another_node(tmp_path: Path, slurm: PrivateSlurm) -> None:
    lab = Lab(tmp_path, slurm).with_team("numpy:eager", '"host"', 100_000_000)
    process = lab.start("--no-report")
    wait_until(lambda: lab.worker_on("n2") is not None, NODE_PATIENCE_S)
    victim = lab.worker_on("n2")
    assert victim is not None
    victim.kill()
    assert ended(process) == 1
    (file,) = lab.out.glob("trials/*/outcome.json")
    outcome = json.loads(file.read_text())
    assert (outcome["status"], outcome["reason"]) == ("failed", "killed")
    assert outcome["message"].startswith("worker 1 was killed by SIGKILL")
    wait_until(lambda: not lab.workers(), PATIENCE_S)


@pytest.mark.slow
@pytest.mark.toolchain("numpy")
def test_a_cancelled_team_is_submitted_again(tmp_path: Path, slurm: PrivateSlurm) -> None:
    lab = Lab(tmp_path, slurm).with_team("numpy:eager", '"host"', 20_000)
    process = lab.start("--no-report")
    wait_until(lambda: lab.worker_on("n2") is not None, NODE_PATIENCE_S)
    job, _ = lab.first_running()
    slurm.run([slurm.program("scancel"), job])
    assert ended(process) == 0, (tmp_path / "lab.log").read_text()
    assert lab.done() == 1
    assert "(CANCELLED) without an outcome; submitting it again" in (tmp_path / "lab.log").read_text()
    assert not lab.workers()
