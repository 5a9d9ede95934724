"""The programs of Slurm that rldyno calls. srun is only asked what it can do."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rldyno.errors import Problem

_ENDED = {
    *("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY"),
    *("PREEMPTED", "REVOKED", "TIMEOUT"),
}
_FULL = (
    *("job violates accounting/qos policy", "job queue full", "temporarily unable to accept job"),
    *("resource temporarily unavailable", "job creation temporarily disabled", "unable to create job record"),
    "job dependency problem",
)
"""What sbatch says of a full queue; and of a job to wait for that the controller has forgotten, which the
next look shows. Its policy may also be that of one job's size or time,"""
_LIMIT_NAME = re.compile(r"\b(?:Assoc|QOS)[A-Z]\w+")
"""unless it names the limit: `QOSMaxSubmitJobPerUserLimit`."""
_NO_ANSWER = (
    *("unable to contact", "timed out", "connect failure", "connection refused", "communication"),
    *("zero bytes were transmitted", "message receive failure"),
)
_REFUSED_FIX = (
    "correct [slurm] in the config file, or give --slurm KEY=VALUE: `sinfo` shows the partitions, and "
    "`last_lines` are for the last job, which has no GPU"
)
_ARRAY_FIX = (
    "set `array_size` of [slurm] in the config file, or give --slurm array_size=N: below the "
    "MaxArraySize that `scontrol show config` prints"
)
_PATIENCE_S = 180.0
"""sbatch itself tries for two minutes where the controller asks it to come again."""
_AT_ONCE = 500
"""Jobs in one call of scancel: a command line has a longest length."""


@dataclass(frozen=True)
class Job:
    """A job, or an element of an array, as squeue shows it."""

    id: str
    state: str
    reason: str
    """Why it waits."""
    node: str
    name: str

    @property
    def live(self) -> bool:
        """Whether it will still run, runs, or is being ended."""
        return self.state not in _ENDED

    @property
    def queued(self) -> bool:
        return self.state in ("PENDING", "REQUEUED", "CONFIGURING")

    @property
    def stuck(self) -> bool:
        """Slurm holds a job that it failed to launch until somebody releases it."""
        return self.queued and "requeued held" in self.reason.lower().replace("_", " ")


class RefusedError(Exception):
    """sbatch did not take a job: the queue is full, or nobody answered."""

    def __init__(self, words: str, *, answered: bool) -> None:
        super().__init__(words)
        self.answered = answered
        """False: the controller may have taken the job all the same."""


class Queue:
    """The cluster that this machine submits to."""

    def submit(self, script: Path, options: Sequence[str] = ()) -> str:
        """The id of the job; a Problem where Slurm will never take it."""
        ended = _call(["sbatch", "--parsable", *options, str(script)])
        if ended is None:
            raise RefusedError("sbatch did not end", answered=False)
        job = ended.stdout.strip().split(";")[0]
        if ended.returncode == 0 and job.isdigit():
            return job
        words = _words(ended)
        if any(sign in words.lower() for sign in _NO_ANSWER):
            raise RefusedError(words, answered=False)
        if _is_full(words):
            raise RefusedError(words, answered=True)
        raise Problem(
            f"Slurm refuses {script}: {words}",
            fix=_ARRAY_FIX if "job array" in words.lower() else _REFUSED_FIX,
            code=1,
        )

    def put_after(self, job: str, others: Iterable[str]) -> bool:
        """Whether a job that has not begun now waits for these to end, and for no time."""
        wanted = [f"JobId={job}", f"Dependency={_after_all(others)}", "StartTime=now"]
        ended = _call(["scontrol", "update", *wanted])
        return ended is not None and ended.returncode == 0

    def read(self) -> dict[str, Job] | None:
        """The user's jobs by id, those that ended within minutes too; None when nobody answers."""
        options = ["--noheader", "--array", "--states=all", f"--user={os.geteuid()}"]
        ended = _call(["squeue", *options, "--format=%i|%T|%N|%j|%r"])
        if ended is None or ended.returncode != 0:
            return None
        found = {}
        for line in ended.stdout.splitlines():
            fields = line.strip().split("|", 4)
            if len(fields) == 5:
                id_, state, node, name, reason = fields
                found[id_] = Job(id_, state, reason, node, name)
        return found

    def mpi(self) -> list[str]:
        """What `srun --mpi` takes; empty when srun does not say."""
        try:
            ended = _call(["srun", "--mpi=list"])
        except FileNotFoundError:
            return []
        return [] if ended is None else f"{ended.stdout} {ended.stderr}".split()

    def cancel(self, jobs: Iterable[str]) -> str:
        """What scancel complained about; empty when it did not."""
        wanted = list(jobs)
        complaints = []
        for start in range(0, len(wanted), _AT_ONCE):
            ended = _call(["scancel", *wanted[start : start + _AT_ONCE]])
            if ended is None or ended.returncode != 0:
                complaints.append("scancel did not end" if ended is None else _words(ended))
        return "; ".join(complaints)


def check_installed() -> None:
    missing = [name for name in ("sbatch", "squeue", "scontrol", "scancel") if shutil.which(name) is None]
    if missing:
        raise Problem(
            f"this machine has no {missing[0]}: it cannot submit jobs to Slurm",
            fix="run the command on a login node of the cluster, or leave --launcher slurm out",
        )


def after_all(jobs: Iterable[str]) -> list[str]:
    """For a job that waits until these have ended, however they end."""
    return [f"--dependency={_after_all(jobs)}"]


def _after_all(jobs: Iterable[str]) -> str:
    return f"afterany:{':'.join(jobs)}"


def not_before(seconds: int) -> list[str]:
    """For a job that waits so long."""
    return [f"--begin=now+{seconds}"]


def _is_full(words: str) -> bool:
    named = _LIMIT_NAME.findall(words)
    if named:
        return any("Submit" in limit for limit in named)
    return any(sign in words.lower() for sign in _FULL)


def _call(command: Sequence[str]) -> subprocess.CompletedProcess[str] | None:
    """None when it did not end in time."""
    try:
        return subprocess.run(
            command,
            env=_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PATIENCE_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return None


def _environment() -> dict[str, str]:
    """Without what Slurm told the job that this process may be: its size would become that of new jobs."""
    told = {name for name in os.environ if name.startswith("SLURM_") and name != "SLURM_CONF"}
    return {name: value for name, value in os.environ.items() if name not in told}


def _words(ended: subprocess.CompletedProcess[str]) -> str:
    lines = [line.strip() for line in ended.stderr.splitlines() if line.strip()]
    spoken = "; ".join(line.split("error: ", 1)[-1] for line in lines)
    return spoken[:500] or f"exit code {ended.returncode}"
