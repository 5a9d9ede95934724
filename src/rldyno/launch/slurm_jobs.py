"""The jobs of a results directory from outside its session: what they do, and how they are ended."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence

from rldyno.errors import Problem
from rldyno.launch.slurm_queue import Job, Queue, check_installed
from rldyno.records.directory import ResultsDirectory
from rldyno.records.owner import check_owned
from rldyno.records.slurm_jobs import SlurmFolder, SlurmJobs
from rldyno_rig.schema import OUTCOME_FILE

_SHOWN = 8
"""Jobs of one kind that are named."""


def cancel_jobs(directory: ResultsDirectory, queue: Queue | None = None) -> str:
    """End all; a sentence about it. A session that follows them ends, too."""
    directory.read_manifest()
    folder = SlurmFolder(directory.root)
    jobs = folder.read()
    if jobs is None:
        raise Problem(
            f"no jobs of Slurm were submitted for {directory.root}",
            fix="end a run on this machine with Ctrl-C where it was started",
        )
    check_owned([folder.jobs_file], "its jobs are not yours", "ask its owner")
    if queue is None:
        check_installed()
        queue = Queue()
    listed = queue.read()
    if listed is None:
        raise Problem("Slurm does not answer", fix="run the same command again later", code=1)
    folder.ask_to_cancel()
    live = [job for job in own_jobs(jobs, listed) if job.live]
    # The one that would go on first: it waits for the others to end.
    complaint = queue.cancel(job.id for job in sorted(live, key=lambda job: "_" in job.id))
    if complaint:
        raise Problem(f"scancel: {complaint}", fix="run the same command again", code=1)
    noun = "job was" if len(live) == 1 else "jobs were"
    return f"{len(live)} {noun} cancelled; finished trials are kept"


def own_jobs(jobs: SlurmJobs, listed: Mapping[str, Job]) -> list[Job]:
    """What Slurm still knows of them, also of those whose id was not noted."""
    ids = {one.name: one.job for one in jobs.submissions}
    return [
        job for job in listed.values() if job.name in ids and ids[job.name] in (None, job.id.split("_")[0])
    ]


def job_lines(directory: ResultsDirectory, queue: Queue | None = None) -> list[str]:
    """For `rldyno status`: queued, running and lost jobs with their ids; nothing for a run without jobs."""
    jobs = SlurmFolder(directory.root).read()
    if jobs is None:
        return []
    if queue is None and shutil.which("squeue") is None:
        return ["its jobs are on a cluster that this machine cannot ask"]
    listed = (queue or Queue()).read()
    if listed is None:
        return ["its jobs are in Slurm, which does not answer"]
    own = own_jobs(jobs, listed)
    trials = {job for _, job in jobs.jobs()}
    queued = [_described(job) for job in own if job.live and job.queued and job.id in trials]
    running = [_described(job) for job in own if job.live and not job.queued and job.id in trials]
    lines = [_line("queued", queued), _line("running", running)]
    lines += [
        f"job {job.id} goes on {'when they have ended' if job.queued else 'now'}"
        for job in own
        if job.live and job.id not in trials
    ]
    for trial, id_ in jobs.latest().items():
        known = listed.get(id_)
        ended = (directory.trial(trial) / OUTCOME_FILE).exists()
        if not ended and not (known and known.live):
            state = known.state if known else jobs.last_state(trial)
            tries = len(jobs.jobs_of(trial))
            lines.append(f"lost  {trial}: job {id_} ({state})" + (f", the last of {tries}" * (tries > 1)))
    return [line for line in lines if line]


def jobs_of_trials(directory: ResultsDirectory) -> Mapping[str, str]:
    """Trial → its last job; empty for a run without jobs."""
    jobs = SlurmFolder(directory.root).read()
    return jobs.latest() if jobs else {}


def _described(job: Job) -> str:
    about = job.reason if job.queued else job.node
    return f"{job.id} ({about})" if about and about != "None" else job.id


def _line(kind: str, jobs: Sequence[str]) -> str:
    if not jobs:
        return ""
    more = f" and {len(jobs) - _SHOWN} more" if len(jobs) > _SHOWN else ""
    return f"{len(jobs)} {'job' if len(jobs) == 1 else 'jobs'} {kind}: {', '.join(jobs[:_SHOWN])}{more}"
