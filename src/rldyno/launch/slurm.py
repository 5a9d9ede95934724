"""Trials as jobs of Slurm: arrays of `rldyno trial DIR`, found again by whoever runs the same command.

The jobs outlive this process. jobs.json says which job has which trial, the queue what became of the job, and
outcome.json in the trial's directory that the trial has ended. What is lost on the way is submitted again.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rldyno.config import SlurmSettings
from rldyno.errors import Problem
from rldyno.launch.launcher import EndedTrial, PreparedTrial, RunningTrial
from rldyno.launch.slurm_queue import Job, Queue, RefusedError
from rldyno.launch.slurm_script import Needs, array_script, command_script
from rldyno.records.attempts import TRIAL_LOCK
from rldyno.records.files import write_atomically
from rldyno.records.locks import lock_holder
from rldyno.records.slurm_jobs import SlurmFolder, SlurmJobs, Submission
from rldyno.records.trial_state import log_tail
from rldyno_rig.schema import OUTCOME_FILE

_RETRY_S = 30.0
"""Between two tries to submit what a full queue refused."""
_LOG_LINES = 5


@dataclass
class _Watched:
    """A trial that was started here: it waits to be submitted, or has a job."""

    trial: PreparedTrial
    job: str | None = None
    since: float | None = None
    """When its job was first seen to run."""
    gone: float | None = None
    """When its job was first seen to have ended without an outcome."""

    @property
    def ended(self) -> bool:
        return (self.trial.directory / OUTCOME_FILE).exists()

    @property
    def held(self) -> bool:
        """Whether a process still works on it, whatever the queue says."""
        return lock_holder(self.trial.directory / TRIAL_LOCK) is not None


class SlurmLauncher:
    """The trials of one results directory on a cluster. `stop` leaves the jobs alone."""

    def __init__(
        self,
        root: Path,
        settings: SlurmSettings,
        continuing: Sequence[str],
        say: Callable[[str], None],
        queue: Queue | None = None,
        *,
        submit: bool = True,
    ) -> None:
        """`continuing`: the command of the job that goes on when the trials have ended.

        Without `submit` the scripts are written and nothing else.
        """
        self._folder = SlurmFolder(root.resolve())
        self._settings = settings
        self._continuing = continuing
        self._say = say
        self._queue = queue or Queue()
        self._submits = submit
        self._jobs = SlurmJobs()
        self._watched: dict[str, _Watched] = {}
        self._listed: dict[str, Job] = {}
        self._next_look = self._next_try = 0.0
        self._silent = False
        self._made: set[str] = set()
        """Names of the jobs that were submitted here."""
        self.scripts: list[Path] = []
        """Written so far."""

    def attach(self, *, anew: bool) -> dict[str, str]:
        """Trial → its job, of jobs that are still queued or running.

        `anew`: a person asks, so that jobs of the past do not count as attempts.
        """
        self._jobs = self._folder.read() or self._jobs
        if not self._jobs.submissions or not self._submits:
            return {}
        self._look(needed=True)
        live = self._live_jobs()
        if anew:
            ended = {one.name for one in self._jobs.submissions if not self._is_live(one.name)}
            self._write(self._jobs.without(ended))
        return live

    def has_room(self, trial: PreparedTrial) -> bool:
        return True

    def start(self, trial: PreparedTrial) -> None:
        """A trial that has a job already keeps it; others are submitted together by the next `wait`."""
        self._watched[trial.id] = _Watched(trial, self._live_jobs().get(trial.id))

    def running(self) -> Sequence[RunningTrial]:
        now = time.monotonic()
        return [
            RunningTrial(entry.trial, entry.since or now, queued=entry.since is None)
            for entry in self._watched.values()
        ]

    def wait(self, timeout_s: float) -> list[EndedTrial]:
        if self._folder.cancelled:
            raise Problem(
                "the run was cancelled with `rldyno cancel`", fix="the same command goes on", code=1
            )
        self.submit()
        now = time.monotonic()
        if now < self._next_look:
            time.sleep(min(timeout_s, self._next_look - now))
            return []
        if not self._look():
            return []
        ended = [ended for entry in list(self._watched.values()) if (ended := self._judge(entry))]
        for one in ended:
            del self._watched[one.trial.id]
        return ended

    def stop(self) -> None:
        """Jobs go on without this process. Only the one that would continue the run is not needed any more
        once everything here has ended.
        """
        if not self._watched:
            self._cancel_continuing()

    def submit(self) -> None:
        """Submit what waits, as far as the queue takes it, and a job that goes on afterwards."""
        asked = {trial for one in self._jobs.submissions if one.job is None for trial in one.trials}
        waiting = [
            entry for entry in self._watched.values() if entry.job is None and entry.trial.id not in asked
        ]
        continued = any(one.continues for one in self._jobs.submissions)
        if (not waiting and continued) or time.monotonic() < self._next_try:
            return
        self._folder.make()
        groups: dict[Needs, list[_Watched]] = {}
        for entry in waiting:
            groups.setdefault(Needs.of(entry.trial), []).append(entry)
        size = self._settings.array_size
        arrays = [
            (needs, part[i : i + size]) for needs, part in groups.items() for i in range(0, len(part), size)
        ]
        try:
            for needs, part in arrays:
                self._submit_array(needs, part)
        except RefusedError as error:
            self._wait_for_room(error)
        self._submit_continuing()

    def _submit_array(self, needs: Needs, entries: list[_Watched]) -> None:
        """All, or half of them, half of those … where the queue is too full for all."""
        while True:
            trials = tuple(entry.trial.id for entry in entries)
            text = partial(
                array_script,
                needs=needs,
                trials=trials,
                root=self._folder.root,
                logs=self._folder.logs,
                settings=self._settings,
            )
            try:
                self._sbatch(trials, text)
            except RefusedError as error:
                if len(entries) == 1 or not error.answered:
                    raise
                entries = entries[: len(entries) // 2]
            else:
                return

    def _sbatch(self, trials: tuple[str, ...], text: Callable[[str], str], after: Sequence[str] = ()) -> None:
        jobs, new = self._jobs.with_new(trials)
        script = self._folder.script(new.name)
        write_atomically(script, text(new.name))
        self.scripts.append(script)
        if not self._submits:
            self._jobs = jobs
            self._assign(new, new.name)
            return
        self._write(jobs)
        try:
            job = self._queue.submit(script, after)
        except RefusedError as error:
            if error.answered:
                self._forget(new.name)
            raise
        except Problem:
            self._forget(new.name)
            raise
        self._made.add(new.name)
        self._write(self._jobs.with_job(new.name, job))
        self._assign(new, job)

    def _assign(self, new: Submission, job: str) -> None:
        """To its trials. A trial whose job had the same id before has lost it."""
        for entry in self._watched.values():
            if entry.job is not None and entry.job.split("_")[0] == job:
                entry.job = entry.since = entry.gone = None
        for index, trial in enumerate(new.trials):
            if trial in self._watched:
                self._watched[trial].job = f"{job}_{index}"

    def _submit_continuing(self) -> None:
        """After all jobs that are known now. The one before it, which waits for fewer, is ended."""
        after = list(dict.fromkeys(job.split("_")[0] for job in self._known_jobs()))
        if not after:
            return
        self._cancel_continuing()
        try:
            words, logs = self._continuing, self._folder.logs
            self._sbatch(
                (), partial(command_script, command=words, logs=logs, settings=self._settings), after
            )
        except RefusedError as error:
            self._next_try = time.monotonic() + _RETRY_S
            self._say(f"no job that goes on by itself yet: {error}")

    def _cancel_continuing(self) -> None:
        """Not the job that this process is, and none whose name shows that the record is wrong."""
        old = [one for one in self._jobs.submissions if one.continues]
        if not old or not self._submits:
            return
        own = os.environ.get("SLURM_JOB_ID")
        ids = [one.job for one in old if one.job not in (None, own) and self._may_cancel(one)]
        self._queue.cancel(filter(None, ids))
        self._write(self._jobs.without({one.name for one in old}))

    def _may_cancel(self, one: Submission) -> bool:
        listed = self._listed.get(one.job or "")
        return listed.name == one.name if listed else one.name in self._made

    def _wait_for_room(self, error: RefusedError) -> None:
        self._next_try = time.monotonic() + _RETRY_S
        if error.answered and not any(job.live for job in self._listed.values()) and not self._known_jobs():
            raise Problem(
                f"Slurm takes no job of this user: {error}",
                fix="see `sacctmgr show assoc` and [slurm] in the config file for limits",
                code=1,
            )
        self._say(f"Slurm takes no more jobs now ({error}); trying again every {_RETRY_S:g} s")

    def _known_jobs(self) -> list[str]:
        return [entry.job for entry in self._watched.values() if entry.job is not None]

    def _look(self, *, needed: bool = False) -> bool:
        """Read the queue, and find jobs whose id this record does not know yet."""
        self._next_look = time.monotonic() + self._settings.poll_s
        found = self._queue.read()
        if found is None:
            if needed:
                raise Problem(
                    "Slurm does not answer, and jobs of this run may be in its queue",
                    fix="run the same command again when `squeue` works",
                    code=1,
                )
            if not self._silent:
                self._say("Slurm does not answer; waiting until it does")
            self._silent = True
            return False
        self._silent = False
        self._listed = found
        self._adopt_unanswered()
        stuck = [job.id for job in found.values() if job.stuck and self._is_ours(job)]
        if stuck:
            self._queue.cancel(stuck)
        return True

    def _is_ours(self, job: Job) -> bool:
        return job.name.startswith(f"rldyno-{self._jobs.token}-")

    def _adopt_unanswered(self) -> None:
        """Jobs that sbatch did not confirm, or a killed lab did not note: found by name, or never made."""
        by_name = {job.name: job.id.split("_")[0] for job in self._listed.values()}
        unknown = [one for one in self._jobs.submissions if one.job is None]
        for one in unknown:
            if one.name not in by_name:
                self._forget(one.name)
                continue
            self._write(self._jobs.with_job(one.name, by_name[one.name]))
            self._assign(one, by_name[one.name])

    def _is_live(self, name: str) -> bool:
        return any(job.name == name and job.live for job in self._listed.values())

    def _live_jobs(self) -> dict[str, str]:
        """Trial → its job that is queued or running."""
        return {
            trial: job for trial, job in self._jobs.jobs() if job in self._listed and self._listed[job].live
        }

    def _judge(self, entry: _Watched) -> EndedTrial | None:
        """What the queue and the files say of a trial; None while it has not ended."""
        now = time.monotonic()
        if entry.ended and not entry.held:
            return EndedTrial(entry.trial, now - (entry.since or now), None, "")
        job = self._listed.get(entry.job or "")
        if job is not None and job.live:
            entry.gone = None
            entry.since = None if job.queued else entry.since or now
            return None
        if entry.job is None:
            return None
        entry.gone = entry.gone or now
        if entry.held or now - entry.gone < self._settings.lost_after_s:
            return None
        fate = f"job {entry.job} ended ({job.state if job else 'no longer in the queue'}) without an outcome"
        tries = len(self._jobs.jobs_of(entry.trial.id))
        if tries < self._settings.attempts:
            self._say(f"{entry.trial.id}: {fate}; submitting it again")
            entry.job = entry.since = entry.gone = None
            return None
        return EndedTrial(entry.trial, 0.0, None, f"{fate}, the last of {tries}{self._last_words(entry)}")

    def _last_words(self, entry: _Watched) -> str:
        for one in reversed(self._jobs.submissions):
            if entry.trial.id in one.trials:
                log = self._folder.logs / f"{one.name}-{one.trials.index(entry.trial.id)}.log"
                tail = log_tail(log, _LOG_LINES)
                return f":\n{tail}" if tail else ""
        return ""

    def submitted(self) -> tuple[int, int]:
        """(trials with a job, trials without one yet)."""
        return len(self._known_jobs()), len(self._watched) - len(self._known_jobs())

    def given_up(self, trials: Iterable[str]) -> set[str]:
        """Those of the trials that have had all their attempts."""
        return {trial for trial in trials if len(self._jobs.jobs_of(trial)) >= self._settings.attempts}

    def _forget(self, name: str) -> None:
        self._write(self._jobs.without({name}))

    def _write(self, jobs: SlurmJobs) -> None:
        self._jobs = jobs
        self._folder.make()
        self._folder.write(jobs)
