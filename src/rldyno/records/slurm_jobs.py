"""slurm/ of a results directory: batch scripts, logs, and jobs.json, which says which job has which trial."""

from __future__ import annotations

import re
import secrets
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rldyno.errors import Problem
from rldyno.records.files import Json, now_iso, write_atomically
from rldyno.records.seal import read_record, write_record
from rldyno.records.typed import damaged, typed

SLURM_FOLDER = "slurm"
NOT_LISTED = "no longer in the queue"
"""The state of a job that Slurm has forgotten."""
_JOBS_FILE = "jobs.json"
_CANCEL_FILE = "cancelled"
_JOB_ID = re.compile(r"[0-9]{1,18}")
_TOKEN = re.compile(r"[0-9a-z]{1,32}")


@dataclass(frozen=True)
class Submission:
    """One call of sbatch, written before the call: a lab that is killed meanwhile finds its job again."""

    name: str
    """Of the job, and of no other job of the cluster."""
    trials: tuple[str, ...]
    """In the order of the array; empty for the job that continues the run."""
    job: str | None = None
    """Its id; None until sbatch has answered."""
    at: str = ""
    lost: Mapping[str, str] = field(default_factory=dict)
    """Trial → the state in which Slurm last showed its job, which ended without an outcome."""

    @property
    def continues(self) -> bool:
        return not self.trials

    def job_of(self, index: int) -> str | None:
        """`17_3`, as squeue shows it."""
        return None if self.job is None else f"{self.job}_{index}"

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> Submission:
        job = values["job"]
        if job is not None and not _JOB_ID.fullmatch(job):
            raise ValueError(f"{job[:40]!r} is no id of a job")
        lost = {str(trial): str(state) for trial, state in values.get("lost", {}).items()}
        return Submission(values["name"], tuple(values["trials"]), job, values["at"], lost)

    def to_json(self) -> Json:
        found: Json = {"name": self.name, "trials": list(self.trials), "job": self.job, "at": self.at}
        return {**found, "lost": dict(self.lost)} if self.lost else found


@dataclass(frozen=True)
class SlurmJobs:
    """All submissions of a results directory, oldest first."""

    token: str = field(default_factory=lambda: secrets.token_hex(4))
    """Begins the names of its jobs."""
    made: int = 0
    """Submissions so far, those included that were forgotten."""
    submissions: tuple[Submission, ...] = ()

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> SlurmJobs:
        """Names become lines of batch scripts and paths: a ValueError where they are not as written here."""
        token, made = values["token"], values["made"]
        listed = tuple(map(Submission.from_json, values["submissions"]))
        if not _TOKEN.fullmatch(token) or not 0 <= made < 10**9:
            raise ValueError(f"{token[:40]!r} and {made} begin no names of jobs")
        for one in listed:
            if not re.fullmatch(rf"rldyno-{token}-[0-9]{{4,9}}", one.name):
                raise ValueError(f"{one.name[:40]!r} is no name of a job")
        return SlurmJobs(token, made, listed)

    def to_json(self) -> Json:
        listed = [submission.to_json() for submission in self.submissions]
        return {"token": self.token, "made": self.made, "submissions": listed}

    def with_new(self, trials: tuple[str, ...]) -> tuple[SlurmJobs, Submission]:
        """With a submission of these trials that has no job yet."""
        number = self.made + 1
        new = Submission(f"rldyno-{self.token}-{number:04}", trials, None, now_iso())
        return replace(self, made=number, submissions=(*self.submissions, new)), new

    def with_job(self, name: str, job: str) -> SlurmJobs:
        """A controller that was killed may forget a job and give its id again: the newer one has it then."""
        kept = (one for one in self.submissions if one.job != job or one.name == name)
        changed = (replace(one, job=job) if one.name == name else one for one in kept)
        return replace(self, submissions=tuple(changed))

    def without(self, names: Collection[str]) -> SlurmJobs:
        kept = tuple(one for one in self.submissions if one.name not in names)
        return replace(self, submissions=kept)

    def with_lost(self, states: Mapping[str, str]) -> SlurmJobs:
        """With the last state of these jobs."""
        changed = []
        for one in self.submissions:
            jobs = {trial: one.job_of(index) for index, trial in enumerate(one.trials)}
            new = {trial: states[job] for trial, job in jobs.items() if job is not None and job in states}
            changed.append(replace(one, lost={**one.lost, **new}))
        return replace(self, submissions=tuple(changed))

    def last_state(self, trial: str) -> str:
        """In which Slurm showed its last job, which is lost."""
        jobs = [one for one in self.submissions if trial in one.trials and one.job is not None]
        return jobs[-1].lost.get(trial, NOT_LISTED) if jobs else NOT_LISTED

    def jobs_of(self, trial: str) -> list[str]:
        """Ids of all its jobs, oldest first."""
        return [job for known, job in self.jobs() if known == trial]

    def jobs(self) -> Iterator[tuple[str, str]]:
        """(trial, its job), oldest first."""
        for one in self.submissions:
            for index, trial in enumerate(one.trials):
                job = one.job_of(index)
                if job is not None:
                    yield trial, job

    def latest(self) -> dict[str, str]:
        """Trial → its last job."""
        return dict(self.jobs())


@dataclass(frozen=True)
class SlurmFolder:
    root: Path
    """The results directory."""

    @property
    def home(self) -> Path:
        return self.root / SLURM_FOLDER

    @property
    def logs(self) -> Path:
        return self.home / "logs"

    @property
    def jobs_file(self) -> Path:
        return self.home / _JOBS_FILE

    def script(self, name: str) -> Path:
        return self.home / f"{name}.sbatch"

    def make(self) -> None:
        self.logs.mkdir(parents=True, exist_ok=True)

    def read(self) -> SlurmJobs | None:
        """None where no job was ever submitted."""
        if not self.jobs_file.exists():
            return None
        if self.home.is_symlink():
            raise damaged(self.jobs_file, "its directory is a link")
        try:
            return typed(self.jobs_file, read_record(self.jobs_file), SlurmJobs.from_json)
        except Problem as problem:
            fix = f"end its jobs with scancel, then remove {self.jobs_file}: finished trials are kept"
            raise Problem(problem.message, fix=fix, code=1) from problem

    def write(self, jobs: SlurmJobs) -> None:
        write_record(self.jobs_file, jobs.to_json())

    @property
    def cancelled(self) -> bool:
        """Whether somebody has asked to end the run since it was last started."""
        return (self.home / _CANCEL_FILE).exists()

    def ask_to_cancel(self) -> None:
        self.make()
        write_atomically(self.home / _CANCEL_FILE, b"")

    def forget_cancel(self) -> None:
        (self.home / _CANCEL_FILE).unlink(missing_ok=True)
