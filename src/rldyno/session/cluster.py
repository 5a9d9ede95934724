"""What a session does differently on a cluster: it submits, it may leave, and a job goes on in its place."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rldyno.config import SlurmSettings
from rldyno.errors import Problem
from rldyno.launch.launcher import DetachedError, PreparedTrial, Watcher
from rldyno.launch.slurm import SlurmLauncher
from rldyno.launch.slurm_jobs import own_jobs
from rldyno.launch.slurm_queue import Job, Queue, check_installed
from rldyno.launch.slurm_script import check_nodes
from rldyno.machine.devices import usable_gpus
from rldyno.processes.control import INTERRUPTED
from rldyno.processes.lab import OWN_MODULE
from rldyno.proofs.prove import to_make
from rldyno.records.attempts import put_aside
from rldyno.records.directory import ResultsDirectory
from rldyno.records.locks import lock_holder
from rldyno.records.slurm_jobs import SlurmFolder
from rldyno.records.trial_state import trial_state
from rldyno_rig.proof.standard import team_sizes

if TYPE_CHECKING:
    from rldyno.proofs.certificate import Subject
    from rldyno.session.session import Options
    from rldyno.toolchains.resolve import Interpreter

CONTINUED = "--continued"


@dataclass(frozen=True)
class ClusterOptions:
    settings: SlurmSettings
    given: tuple[str, ...] = ()
    """What --slurm changed in the settings."""
    detach: bool = False
    """Submit and leave."""
    continued: bool = False
    """This is a job that goes on in the place of a session that has left."""
    print_scripts: bool = False
    """Write the batch scripts and submit nothing."""

    @property
    def leaves(self) -> bool:
        return self.detach or self.continued or self.print_scripts


class Cluster:
    """Slurm, as the session of one results directory uses it."""

    def __init__(
        self,
        options: ClusterOptions,
        session: Options,
        directory: ResultsDirectory,
        say: Callable[[str], None],
    ) -> None:
        if session.hours is not None:
            raise Problem(
                "--hours needs a run on this machine", fix="limit each trial: --slurm time=02:00:00"
            )
        if not options.print_scripts:
            check_installed()
        self.options = options
        self._directory = directory
        self._say = say
        self._folder = SlurmFolder(directory.root)
        jobs = session.jobs
        settings = (
            options.settings if jobs is None else options.settings.model_copy(update={"throttle": jobs})
        )
        self.launcher = SlurmLauncher(
            directory.root, settings, continuing(directory, session), say, submit=not options.print_scripts
        )
        self.attached: dict[str, str] = {}
        """Trial → its job, of jobs that were queued or running when this session began."""

    def give_way(self) -> None:
        """A job that goes on does nothing while a session is there, or when the run was cancelled."""
        if not self.options.continued:
            return
        if lock_holder(self._directory.lock) is not None:
            raise DetachedError("another `rldyno run` works here and goes on by itself")
        if self._folder.cancelled:
            raise DetachedError("the run was cancelled with `rldyno cancel`")

    def attach(self) -> None:
        """Find the jobs of earlier sessions."""
        if self.options.print_scripts:  # which changes nothing
            live = {job.id for job in live_jobs(self._folder)}
            jobs = self._folder.read() if live else None
            self.attached = {trial: job for trial, job in jobs.jobs() if job in live} if jobs else {}
        else:
            if not self.options.continued:
                self._folder.forget_cancel()
            self.attached = self.launcher.attach(anew=not self.options.continued)
        if self.attached:
            noun = "trial is" if len(self.attached) == 1 else "trials are"
            self._say(f"{len(self.attached)} {noun} queued or running already")

    def to_launch(self, trials: Iterable[PreparedTrial]) -> list[PreparedTrial]:
        """Those that this session may submit or wait for.

        What an earlier attempt left is put aside: from here on an outcome is that of the job.
        """
        listed = [replace(trial, attached=trial.id in self.attached) for trial in trials]
        mpi = None if self.options.print_scripts else Queue().mpi
        check_nodes(listed, self.options.settings, mpi)
        self.attached = {}  # a trial that runs again in this session has a job of its own
        if self.options.print_scripts:
            left = [trial for trial in listed if not trial.attached]
            if listed and not left:
                raise DetachedError("nothing is left to submit")
            return left
        spent: set[str] = set()
        if self.options.continued:
            spent = self.launcher.given_up(trial.id for trial in listed if not trial.attached)
        for trial in listed:
            if not trial.attached and trial.id not in spent and trial_state(trial.directory).failed:
                put_aside(trial.directory)
        for name in sorted(spent):
            self._say(f"{name} is not run again: {self.launcher.fate(name)}, the last of its attempts")
        return [trial for trial in listed if trial.id not in spent]

    def submit_and_leave(self, trials: Iterable[PreparedTrial], watcher: Watcher) -> None:
        """Raises DetachedError; returns where this process must stay, because no job would go on after it."""
        for trial in trials:
            self.launcher.start(watcher.starting(trial))
        if not self.launcher.running():
            return
        self.launcher.submit(leaving=True)
        if self.options.print_scripts:
            paths = "\n".join(map(str, self.launcher.scripts))
            raise DetachedError(f"nothing was submitted; the batch scripts are\n{paths}")
        count, left = self.launcher.submitted()
        if not self.launcher.goes_on():
            if self.options.continued:
                self._say("Slurm takes no job that would go on after this one: it stays until trials end")
                return
            raise Problem(
                f"cannot detach: Slurm has no job that goes on afterwards ({count} of {count + left} trials "
                "are queued or running)",
                fix="the same command without --detach attaches to them, waits for room and goes on",
                code=1,
            )
        rest = f"; {left} more follow when the queue has room" if left else ""
        noun = "trial is" if count == 1 else "trials are"
        raise DetachedError(f"{count} {noun} queued or running{rest}. {self.next_steps}")

    def interrupted(self) -> DetachedError:
        return DetachedError(f"detached; the jobs go on. {self.next_steps}", INTERRUPTED)

    @property
    def next_steps(self) -> str:
        root = self._directory.root
        last = "A last job writes the report" if self.launcher.goes_on() else "No job goes on after them yet"
        return (
            f"{last}. `rldyno status {root}` shows the jobs, `rldyno cancel {root}` "
            "ends them, the same command attaches again"
        )

    def check_variants(self, interpreters: Mapping[str, Interpreter], devices: Iterable[str]) -> None:
        """A login node may have no GPU: toolchains were then built without CUDA."""
        wrong = [name for name, found in sorted(interpreters.items()) if found.variant == "cpu"]
        if "cuda" in set(devices) and wrong:
            raise Problem(
                f"the study needs GPUs, and the toolchain of {wrong[0]} was built for CPUs",
                fix='write `variant = "cuda"` into the config file, then `rldyno setup`',
            )

    def provable_here(
        self, subjects: Iterable[Subject], interpreters: Mapping[str, Interpreter]
    ) -> list[Subject]:
        """Without those that have no certificate yet and need more GPUs than this machine has."""
        listed, count = list(subjects), usable_gpus()[0]
        left = [one for one in to_make(listed, interpreters) if gpus_needed(one) > count]
        if left:
            names = ", ".join(sorted({str(one.contestant) for one in left}))
            most = max(map(gpus_needed, left))
            lack = "no GPU" if count == 0 else f"{count} GPU only"
            self._say(
                f"not proven, because this machine has {lack}: {names}. In a job with {most}: "
                f"rldyno verify --study {self._directory.root}; then run the same command again"
            )
        return [one for one in listed if one not in left]


def check_no_jobs(directory: ResultsDirectory) -> None:
    """Before a run on this machine: a Problem while jobs of a cluster may run the same trials."""
    live = live_jobs(SlurmFolder(directory.root))
    if live:
        raise Problem(
            f"jobs of the run in {directory.root} are queued or running: {live[0].id}",
            fix=f"attach to them with --launcher slurm, or end them: rldyno cancel {directory.root}",
        )


def live_jobs(folder: SlurmFolder) -> list[Job]:
    """Of this run, as far as this machine can ask."""
    jobs = folder.read()
    listed = Queue().read() if jobs and shutil.which("squeue") else None
    return [job for job in own_jobs(jobs, listed) if job.live] if jobs and listed else []


def gpus_needed(subject: Subject) -> int:
    """For its proof."""
    if subject.device == "cpu":
        return 0
    return max(team_sizes(subject.device)) if subject.own_gpus else 1


def continuing(directory: ResultsDirectory, options: Options) -> list[str]:
    """The command that goes on in the results directory, with what this session was given."""
    words = [sys.executable, *OWN_MODULE, "rldyno", "run", str(directory.root.resolve())]
    words += ["--launcher", "slurm", CONTINUED, "--keep-failed"]
    for name, path in (options.overrides or {}).items():
        words += ["--toolchain", f"{name}={path}"]
    for change in options.cluster.given if options.cluster else ():
        words += ["--slurm", change]
    if options.jobs is not None:
        words += ["--jobs", str(options.jobs)]
    if options.noise_limit:
        limit = options.noise_limit
        words += ["--max-noise", f"{limit.score:g}", "--noise-attempts", str(limit.attempts)]
    flags = {
        "--amend": options.amend,
        "--no-verify": not options.verify,
        "--no-report": not options.report,
        "--tensorboard": options.tensorboard,
    }
    return words + [flag for flag, wanted in flags.items() if wanted]
