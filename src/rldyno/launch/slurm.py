"""Trials as jobs of Slurm: arrays of `rldyno trial DIR`, found again by whoever runs the same command.

The jobs outlive this process. outcome.json in the trial's directory says that the trial has ended. What is
lost on the way is submitted again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rldyno.config import SlurmSettings
from rldyno.errors import Problem
from rldyno.launch.launcher import EndedTrial, PreparedTrial, RunningTrial
from rldyno.launch.slurm_ledger import Ledger
from rldyno.launch.slurm_queue import Queue, RefusedError, after_all, not_before
from rldyno.launch.slurm_script import Needs, array_script, command_script
from rldyno.records.attempts import TRIAL_LOCK
from rldyno.records.locks import lock_holder
from rldyno.records.slurm_jobs import SlurmFolder, Submission
from rldyno.records.trial_state import log_tail
from rldyno_rig.schema import OUTCOME_FILE

_RETRY_S = 30.0
"""Between two tries to submit what a full queue refused."""
_RESERVED_S = 600
"""After so long a job goes on whose session was killed before it could say what to wait for."""
_SILENCE_S = 6 * 3600.0
"""How long the job that goes on waits for a controller that does not answer: nobody else would go on."""
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
        self._ledger = Ledger(self._folder, queue or Queue(), say, self._assign, submits=submit)
        self._watched: dict[str, _Watched] = {}
        self._next_look = self._next_try = 0.0
        self._waited_for: list[str] = []
        """Jobs for which the last job waits, where that is known."""
        self._told = ""

    @property
    def scripts(self) -> list[Path]:
        """Written so far."""
        return self._ledger.scripts

    def attach(self, *, anew: bool) -> dict[str, str]:
        """Trial → its job, of jobs that are still queued or running.

        `anew`: a person asks, so that jobs of the past do not count as attempts, and Slurm must answer.
        """
        self._ledger.read()
        if not self._ledger.jobs.submissions or not self._ledger.submits:
            return {}
        self._ledger.look_patiently(0.0 if anew else _SILENCE_S)
        self._ledger.note_lost()
        live = self._ledger.live_jobs()
        if anew:
            self._ledger.forget_ended()
        return live

    def has_room(self, trial: PreparedTrial) -> bool:
        return True

    def start(self, trial: PreparedTrial) -> None:
        """A trial that has a job already keeps it; others are submitted together by the next `wait`."""
        self._watched[trial.id] = _Watched(trial, self._ledger.live_jobs().get(trial.id))

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
        self._next_look = now + self._settings.poll_s
        if not self._ledger.look():
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
            self._give_up_last()

    def submit(self, *, leaving: bool = False) -> None:
        """Submit what waits, as far as the queue takes it, and a job that goes on afterwards.

        `leaving`: nobody stays to try again, so that job has its place in the queue before the trials.
        """
        asked = {trial for one in self._ledger.jobs.submissions if one.job is None for trial in one.trials}
        waiting = [
            entry for entry in self._watched.values() if entry.job is None and entry.trial.id not in asked
        ]
        if (not waiting and self._ledger.last_jobs) or time.monotonic() < self._next_try:
            return
        if leaving and self._ledger.submits and not self._ledger.last_jobs:
            with suppress(RefusedError):
                self._submit_last(not_before(_RESERVED_S))
        try:
            self._submit_arrays(waiting)
        except RefusedError as error:
            self._wait_for_room(error, "" if leaving else f"; trying again every {_RETRY_S:g} s")
        self._go_on_afterwards()

    def _submit_arrays(self, waiting: Iterable[_Watched]) -> None:
        groups: dict[Needs, list[_Watched]] = {}
        for entry in waiting:
            groups.setdefault(Needs.of(entry.trial), []).append(entry)
        size = self._settings.array_size
        arrays = [
            (needs, part[i : i + size]) for needs, part in groups.items() for i in range(0, len(part), size)
        ]
        for needs, part in arrays:
            try:
                self._submit_array(needs, part)
            except RefusedError as error:
                if not error.answered or self._known_jobs() or not self._ledger.last_jobs:
                    raise
                self._give_up_last()  # its place, for a trial: else no trial would ever run
                self._submit_array(needs, part)

    def _submit_array(self, needs: Needs, entries: list[_Watched]) -> None:
        """All; or half of them, half of those … and a RefusedError, where the queue is too full for all."""
        refused: RefusedError | None = None
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
                self._ledger.submit(trials, text)
            except RefusedError as error:
                if len(entries) == 1 or not error.answered:
                    raise
                refused, entries = error, entries[: len(entries) // 2]
            else:
                if refused:
                    raise refused  # sbatch may try for minutes: no other array is offered now
                return

    def _assign(self, new: Submission, job: str) -> None:
        """To its trials. A trial whose job had the same id before has lost it."""
        for entry in self._watched.values():
            if entry.job is not None and entry.job.split("_")[0] == job:
                entry.job = entry.since = entry.gone = None
        for index, trial in enumerate(new.trials):
            if trial in self._watched:
                self._watched[trial].job = f"{job}_{index}"

    def _submit_last(self, options: Sequence[str]) -> None:
        words, logs = self._continuing, self._folder.logs
        self._ledger.submit(
            (), partial(command_script, command=words, logs=logs, settings=self._settings), options
        )

    def _go_on_afterwards(self) -> None:
        """One job waits for all that are known now. It is never ended before its successor is there."""
        there = [entry.job for entry in self._watched.values() if entry.job and entry.gone is None]
        after = list(dict.fromkeys(job.split("_")[0] for job in there))
        old = self._ledger.last_jobs
        if not after or (old and after == self._waited_for):
            return
        if not any(self._ledger.put_after(one, after) for one in old):
            try:
                self._submit_last(after_all(after))
            except RefusedError as error:
                self._next_try = time.monotonic() + _RETRY_S
                self._say_once(f"no job that goes on by itself yet: {error}")
                return
            self._ledger.cancel(old)
        self._waited_for = after

    def goes_on(self) -> bool:
        """Whether Slurm has a job that goes on when the trials have ended."""
        if any(one.job is None for one in self._ledger.last_jobs):
            self._ledger.look()
        return any(one.job is not None for one in self._ledger.last_jobs)

    def _give_up_last(self) -> None:
        self._ledger.cancel(self._ledger.last_jobs)

    def _wait_for_room(self, error: RefusedError, until: str) -> None:
        self._next_try = time.monotonic() + _RETRY_S
        nothing = error.answered and not self._known_jobs() and self._ledger.look()
        if nothing and not any(job.live for job in self._ledger.listed.values()):
            raise Problem(
                f"Slurm takes no job of this user: {error}",
                fix="see `sacctmgr show assoc` and [slurm] in the config file for limits",
                code=1,
            )
        self._say_once(f"Slurm takes no more jobs now ({error}){until}")

    def _say_once(self, words: str) -> None:
        if words != self._told:
            self._say(words)
        self._told = words

    def _known_jobs(self) -> list[str]:
        return [entry.job for entry in self._watched.values() if entry.job is not None]

    def _judge(self, entry: _Watched) -> EndedTrial | None:
        """What the queue and the files say of a trial; None while it has not ended."""
        now = time.monotonic()
        if entry.ended and not entry.held:
            return EndedTrial(entry.trial, now - (entry.since or now), None, "")
        job = self._ledger.listed.get(entry.job or "")
        if job is not None and job.live:
            entry.gone = None
            entry.since = None if job.queued else entry.since or now
            return None
        if entry.job is None:
            return None
        if entry.gone is None:
            entry.gone = now
            self._ledger.note_lost([entry.job])
        if entry.held or now - entry.gone < self._settings.lost_after_s:
            return None
        fate = self.fate(entry.trial.id)
        tries = len(self._ledger.jobs.jobs_of(entry.trial.id))
        if tries < self._settings.attempts:
            self._say(f"{entry.trial.id}: {fate}; submitting it again")
            entry.job = entry.since = entry.gone = None
            return None
        return EndedTrial(entry.trial, 0.0, None, f"{fate}, the last of {tries}{self._last_words(entry)}")

    def fate(self, trial: str) -> str:
        """Of the last job of a trial that is lost."""
        jobs = self._ledger.jobs
        return f"job {jobs.latest()[trial]} ended ({jobs.last_state(trial)}) without an outcome"

    def _last_words(self, entry: _Watched) -> str:
        for one in reversed(self._ledger.jobs.submissions):
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
        jobs = self._ledger.jobs
        return {trial for trial in trials if len(jobs.jobs_of(trial)) >= self._settings.attempts}
