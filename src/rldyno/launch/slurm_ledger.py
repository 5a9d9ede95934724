"""What was submitted for one results directory: jobs.json and the queue, kept together.

jobs.json says which job has which trial, the queue what became of the job.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from rldyno.errors import Problem
from rldyno.launch.slurm_queue import Job, Queue, RefusedError
from rldyno.records.directory import ResultsDirectory
from rldyno.records.files import write_atomically
from rldyno.records.slurm_jobs import SlurmFolder, SlurmJobs, Submission
from rldyno_rig.schema import OUTCOME_FILE

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 5.0, 120.0
"""Between two questions to a controller that does not answer."""


class Ledger:
    def __init__(
        self,
        folder: SlurmFolder,
        queue: Queue,
        say: Callable[[str], None],
        on_job: Callable[[Submission, str], None],
        *,
        submits: bool,
    ) -> None:
        """`on_job`: called when a submission has got its id. Without `submits` only scripts are written."""
        self.folder = folder
        self.jobs = SlurmJobs()
        self.listed: dict[str, Job] = {}
        """The user's jobs, as last seen."""
        self.scripts: list[Path] = []
        """Written so far."""
        self.submits = submits
        self._queue = queue
        self._say = say
        self._on_job = on_job
        self._silent = False
        self._made: set[str] = set()
        """Names of the jobs that were submitted here."""

    def read(self) -> None:
        self.jobs = self.folder.read() or self.jobs

    def forget(self, names: Iterable[str]) -> None:
        left = self.jobs.without(set(names))
        if left != self.jobs:
            self._write(left)

    def submit(
        self, trials: tuple[str, ...], text: Callable[[str], str], options: Sequence[str] = ()
    ) -> None:
        """`text`: the batch script, from the name of the job."""
        jobs, new = self.jobs.with_new(trials)
        script = self.folder.script(new.name)
        self.folder.make()
        write_atomically(script, text(new.name))
        self.scripts.append(script)
        if not self.submits:
            self.jobs = jobs
            self._on_job(new, new.name)
            return
        self._write(jobs)
        try:
            job = self._queue.submit(script, options)
        except RefusedError as error:
            if error.answered:
                self.forget([new.name])
            raise
        except Problem:
            self.forget([new.name])
            raise
        self._made.add(new.name)
        self._write(self.jobs.with_job(new.name, job))
        self._on_job(new, job)

    def look(self, *, waits: bool = True) -> bool:
        """Read the queue, and find jobs whose id is not known yet; False while nobody answers."""
        found = self._queue.read()
        if found is None:
            if waits and not self._silent:
                self._say("Slurm does not answer; waiting until it does")
            self._silent = True
            return False
        self._silent = False
        self.listed = found
        self._adopt_unanswered()
        self.forget(one.name for one in self.jobs.submissions if one.continues and not self._is_live(one))
        stuck = [job.id for job in found.values() if job.stuck and self._is_ours(job)]
        if stuck:
            self._queue.cancel(stuck)
        return True

    def look_patiently(self, patience_s: float) -> None:
        pause, until = _FIRST_PAUSE_S, time.monotonic() + patience_s
        while not self.look(waits=patience_s > 0):
            left = until - time.monotonic()
            if left <= 0:
                raise Problem(
                    "Slurm does not answer, and jobs of this run may be in its queue",
                    fix="run the same command again when `squeue` works",
                    code=1,
                )
            time.sleep(min(pause, left))
            pause = min(2 * pause, _LONGEST_PAUSE_S)

    def _is_ours(self, job: Job) -> bool:
        return job.name.startswith(f"rldyno-{self.jobs.token}-")

    def _adopt_unanswered(self) -> None:
        """Jobs that sbatch did not confirm, or a killed lab did not note: found by name, or never made."""
        by_name = {job.name: job.id.split("_")[0] for job in self.listed.values()}
        for one in [one for one in self.jobs.submissions if one.job is None]:
            if one.name not in by_name:
                self.forget([one.name])
                continue
            self._write(self.jobs.with_job(one.name, by_name[one.name]))
            self._on_job(one, by_name[one.name])

    def _is_live(self, one: Submission) -> bool:
        """Whether a job of it is queued or runs."""
        return any(job.name == one.name and job.live for job in self.listed.values())

    def forget_ended(self) -> None:
        """So that jobs of the past do not count as attempts."""
        self.forget(one.name for one in self.jobs.submissions if not self._is_live(one))

    def live_jobs(self) -> dict[str, str]:
        """Trial → its job that is queued or running."""
        return {trial: job for trial, job in self.jobs.jobs() if job in self.listed and self.listed[job].live}

    def note_lost(self, jobs: Iterable[str] | None = None) -> None:
        """Keep the last state of these jobs, by default of all without an outcome: Slurm forgets it soon."""
        wanted = self._without_outcome() if jobs is None else jobs
        listed = [self.listed[id_] for id_ in wanted if id_ in self.listed]
        noted = self.jobs.with_lost({job.id: job.state for job in listed if not job.live})
        if noted != self.jobs:
            self._write(noted)

    def _without_outcome(self) -> list[str]:
        results = ResultsDirectory(self.folder.root)
        return [job for trial, job in self.jobs.jobs() if not (results.trial(trial) / OUTCOME_FILE).exists()]

    @property
    def last_jobs(self) -> list[Submission]:
        """Those that go on when the trials have ended, without the job that this process is."""
        own = os.environ.get("SLURM_JOB_ID", "")
        return [one for one in self.jobs.submissions if one.continues and one.job != own]

    def cancel(self, submissions: Iterable[Submission]) -> None:
        """Not those whose name shows that the record is wrong: a job of that id is another one."""
        listed = list(submissions) if self.submits else []
        self._queue.cancel(one.job for one in listed if one.job is not None and self._is_its_job(one))
        self.forget(one.name for one in listed)

    def put_after(self, one: Submission, jobs: Sequence[str]) -> bool:
        """Whether its job now waits for these to end, and for nothing else."""
        return one.job is not None and self._is_its_job(one) and self._queue.put_after(one.job, jobs)

    def _is_its_job(self, one: Submission) -> bool:
        listed = self.listed.get(one.job or "")
        return listed.name == one.name if listed else one.name in self._made

    def _write(self, jobs: SlurmJobs) -> None:
        self.jobs = jobs
        self.folder.make()
        self.folder.write(jobs)
