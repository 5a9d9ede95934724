"""A user of the private Slurm, for the tests of the cluster."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from pathlib import Path

import psutil
from fakes import PATIENCE_S

from kills import STUDY
from private_slurm import PrivateSlurm
from rldyno.records.slurm_jobs import SlurmFolder, SlurmJobs
from rldyno.records.trial_state import trial_state
from slurm_kills import is_trial_of

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
