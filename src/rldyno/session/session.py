"""`rldyno run`: from a study file to finished trials and their answer. The same call again continues."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rldyno.config import cache_dir
from rldyno.errors import Problem
from rldyno.launch.launcher import Launcher, PreparedTrial, Watcher, run_trials
from rldyno.launch.local import LocalLauncher
from rldyno.libraries import MissingLibrary, needed_for
from rldyno.machine.cpus import available_cpus
from rldyno.probe.probe import idle_cpu_percent
from rldyno.processes import caches
from rldyno.processes.control import pin, stop_signals
from rldyno.proofs import prove
from rldyno.proofs.certificate import Subject
from rldyno.records.attempts import finish_moves
from rldyno.records.directory import ResultsDirectory, working_in
from rldyno.records.files import remove_abandoned, write_atomically
from rldyno.records.manifest import Manifest
from rldyno.session import code_changes, seed_rounds
from rldyno.session.cluster import Cluster, ClusterOptions, check_no_jobs
from rldyno.session.environments import check_environments
from rldyno.session.eta import Eta, Pace, pace_of, trials_ahead
from rldyno.session.following import Follower, KnownConditions
from rldyno.session.manifest import (
    StudyChange,
    check_same_conditions,
    check_same_study,
    keep_edited_copy,
    make_manifest,
    study_change,
)
from rldyno.session.preparation import (
    find_interpreters,
    needs_of,
    prepare,
    trial_file,
    trials_to_run,
    why_absent,
    with_guests,
)
from rldyno.session.progress import open_display
from rldyno.session.reruns import NoiseLimit, run_until_quiet
from rldyno.session.room import check_devices, check_memory, place_widest
from rldyno.session.summary import summarise
from rldyno.studies.given import given_study
from rldyno.study.origins import untuned, untuned_words
from rldyno.study.plan import Plan, make_plan
from rldyno.toolchains.resolve import Interpreter

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True)
class Options:
    out: Path | None = None
    overrides: Mapping[str, Path] | None = None
    """Framework → interpreter to use instead of a built toolchain."""
    seeds: str | None = None
    """Instead of the study's: `10`, or `5..30` for adaptive ones."""
    quick: bool = False
    """The study in its quick size."""
    jobs: int | None = None
    """Trials at the same time: by default one here, on a cluster as many as its settings say."""
    keep_failed: bool = False
    amend: bool = False
    verify: bool = True
    report: bool = True
    limits: bool = True
    tensorboard: bool = False
    noise_limit: NoiseLimit | None = None
    """Repeat trials that are noisier than this."""
    hours: float | None = None
    """Start no block of seeds that would not end within so many hours."""
    pip_args: Sequence[str] | None = None
    cluster: ClusterOptions | None = None
    """None: on this machine."""


def run_study(study: Path, options: Options, console: Console) -> bool:
    """Run what is not finished yet; True when every trial of the study is done."""
    return Session(study, options, console).run()


class Session:
    """One `rldyno run`. `run` is the recipe; each step below it does one thing."""

    def __init__(
        self, study: Path, options: Options, console: Console, launcher: Launcher | None = None
    ) -> None:
        """`study`: a file, the name of a shipped study, or the results directory of a run to continue."""
        self.given = given_study(study, options.seeds, options.quick)
        self.options = options
        self.console = console
        self.plan = make_plan(self.given.study)
        """All trials that may be needed."""
        given_home = self.given.directory or Path("results") / self.given.name
        self.directory = ResultsDirectory(options.out or given_home)
        self.cpus = available_cpus()
        self.probe_cpu: int | None = None
        self.cluster: Cluster | None = None
        self.launcher = launcher or self.choose_launcher()
        self.manifest = Manifest()
        self.change: StudyChange | None = None
        """Of the study, since the run began."""
        self.interpreters: dict[str, Interpreter] = {}
        self.absent: dict[str, Problem] = {}
        """Framework → why it has no interpreter: its trials fail."""
        self.environments: prove.Environments = {}
        """What toolchains found of the environments of trials to run."""
        self.pace = Pace()
        self.contestants_to_run: set[str] = set()
        """Those with trials that are not done."""
        self.changed_code: dict[str, list[str]] = {}
        """Contestant → parts of its code that changed since its finished trials ran."""

    def choose_launcher(self) -> Launcher:
        """Here, on CPUs that are there, or where the user's settings say."""
        if self.options.cluster:
            self.cluster = Cluster(self.options.cluster, self.options, self.directory, self.print_line)
            return self.cluster.launcher
        jobs = self.options.jobs or 1
        self.probe_cpu, worker_cpus = place_widest(self.cpus, self.plan.cells, jobs)
        return LocalLauncher(jobs, worker_cpus, self.probe_cpu)

    def run(self) -> bool:
        """True when every trial of the study is done. Raises DetachedError where jobs go on without it."""
        if self.cluster:
            self.cluster.give_way()
        with working_in(self.directory):
            remove_abandoned(cache_dir())
            if self.cluster:
                self.cluster.attach()
            else:
                check_no_jobs(self.directory)
            finish_moves(self.directory.trials)
            earlier = self.read_earlier_manifest()
            self.check_devices(seed_rounds.current_plan(self.plan, earlier))
            self.find_toolchains(seed_rounds.current_plan(self.plan, earlier))
            self.check_environments(seed_rounds.current_plan(self.plan, earlier))
            self.write_study_and_manifest(earlier)
            self.find_contestants_to_run()
            self.check_code()
            self.prove_contestants()
            self.measure_machine()
            self.run_rounds()
            finished = summarise(self.directory, self.current_plan, self.console)
            self.if_installed("the answer", self.answer)
            self.if_installed("TensorBoard event files", self.write_event_files)
            return finished

    @property
    def current_plan(self) -> Plan:
        """The trials that are needed so far: all, or with adaptive seeds those added until now."""
        return seed_rounds.current_plan(self.plan, self.manifest)

    def read_earlier_manifest(self) -> Manifest | None:
        """Of the run to continue, which must be of the same study; None for a new run."""
        if not self.directory.manifest.exists():
            return None
        earlier = self.directory.read_manifest()
        self.change = study_change(self.directory, earlier, self.plan.study)
        if self.change and not self.options.amend:
            check_same_study(self.directory, self.change, seeds_given=self.given.seeds_given)
        return earlier

    def check_devices(self, plan: Plan) -> None:
        """Only of trials that have to run: finished ones may come from a machine with a GPU."""
        if self.cluster:
            return
        cells = {trial.cell for trial in trials_to_run(self.directory, plan, self.options.keep_failed)}
        check_devices(cells)
        check_memory(cells)

    def find_toolchains(self, plan: Plan) -> None:
        """Find or build an interpreter for every framework and every script of the study."""
        needs = needs_of(self.plan.cells)
        self.interpreters, self.absent = find_interpreters(
            needs, self.options.overrides, self.options.pip_args, self.console, needs
        )
        left = trials_to_run(self.directory, plan, self.options.keep_failed)
        self.plan, found, absent = with_guests(self.plan, self.given.folder, left, self.options, self.console)
        self.interpreters, self.absent = self.interpreters | found, self.absent | absent
        if self.cluster:
            self.cluster.check_variants(self.interpreters, (cell.device for cell in self.plan.cells))

    def check_environments(self, plan: Plan) -> None:
        """That those of trials to run can be made, and what is not tuned for them."""
        left = trials_to_run(self.directory, plan, self.options.keep_failed)
        cells = dict.fromkeys(trial.cell for trial in left)
        self.environments = check_environments(cells, self.interpreters, self.print_line)
        if not self.cluster:
            check_memory(cells, self.environments)
        for task in untuned(self.plan.study) if cells else ():
            self.print_line(untuned_words(task))

    def write_study_and_manifest(self, earlier: Manifest | None) -> None:
        plan = seed_rounds.current_plan(self.plan, earlier)
        self.manifest = make_manifest(plan, self.given, self.interpreters, earlier)
        if earlier:
            if self.cluster:  # the session may go on anywhere: its machine is not that of the trials
                self.manifest = replace(self.manifest, machine=earlier.machine)
            if not self.options.amend:
                check_same_conditions(self.directory, earlier, self.manifest)
            self.manifest = self.with_amendment(earlier)
            keep_edited_copy(self.directory, earlier, self.print_line)
        self.directory.write_manifest(self.manifest)
        write_atomically(self.directory.study, self.manifest.study_text)

    def with_amendment(self, earlier: Manifest) -> Manifest:
        """The manifest with what changed in the study, for the readers of the results."""
        if self.change is None:
            return self.manifest
        amendment = self.change.amendment(self.directory, earlier)
        self.print_line(f"recorded as an amendment: {'; '.join(amendment.changes)}")
        return replace(self.manifest, amended=(*self.manifest.amended, amendment))

    def find_contestants_to_run(self) -> None:
        plan = self.current_plan
        left = trials_to_run(self.directory, plan, self.options.keep_failed)
        self.contestants_to_run = {trial.cell.contestant for trial in left}
        if not self.contestants_to_run:
            self.console.print(f"all {len(plan.trials)} trials have already ended", highlight=False)

    def check_code(self) -> None:
        """No contestant mixes two versions of its code, unless the user accepts it with --amend."""
        to_run = self.contestants_to_run
        self.changed_code = code_changes.changed_code(self.directory, self.current_plan)
        if not self.options.amend:
            code_changes.check_same_code(self.directory, self.changed_code, to_run)
        code_changes.report_changes(self.directory, self.changed_code, to_run, self.console)

    def prove_contestants(self) -> None:
        """Certify what will run, and what has run uncertified with the code of today."""
        if not self.options.verify or (self.cluster and self.cluster.options.print_scripts):
            return
        expected = set(self.contestants_to_run)
        if self.plan.study.adaptive:
            # Seeds may be added to every contestant whose code is still the one that ran.
            changed = set() if self.options.amend else self.changed_code.keys()
            expected |= set(self.plan.study.contestants) - changed
        finished: set[Subject] = set()
        self.if_installed(
            "a proof of finished trials", lambda: finished.update(code_changes.unproven(self.directory))
        )
        planned = prove.subjects(self.current_plan.cells, self.environments)
        subjects = code_changes.to_prove(planned, finished, self.changed_code, expected, self.interpreters)
        if self.cluster:
            subjects = self.cluster.provable_here(subjects, self.interpreters)
        prove.ensure(subjects, self.interpreters, self.directory.root, self.console)

    def measure_machine(self) -> None:
        """CPU use of the idle machine, and its limits: from the cache, or measured now, in seconds.

        Limits that were measured while the machine was busy are looked up again.
        """
        from rldyno.limits.study import study_limits

        if not self.options.limits or self.options.cluster:  # this machine is not that of the trials
            return
        to_run = bool(self.contestants_to_run)
        if to_run:
            self.manifest = replace(self.manifest, idle_cpu_percent=idle_cpu_percent())
        if to_run or (self.manifest.limits and self.manifest.limits.is_busy):
            limits = study_limits(self.plan, self.options.overrides, self.print_line)
            self.manifest = replace(self.manifest, limits=limits)
        self.directory.write_manifest(self.manifest)

    def run_rounds(self) -> None:
        """The opening trials, then seeds where comparisons are open, on a CPU that no worker uses."""
        hours = seed_rounds.Hours(self.options.hours and self.options.hours * 3600)
        self.pace = pace_of(self.directory, self.current_plan)
        pin(None if self.probe_cpu is None else (self.probe_cpu,))
        try:
            seed_rounds.run_opening(self.current_plan, self.run_round, hours)
            self.manifest = seed_rounds.add_seeds(
                self.directory, self.plan, self.manifest, self.run_round, hours, self.console
            )
        finally:
            pin(self.cpus)
            self.remove_warm_caches()

    def remove_warm_caches(self) -> None:
        """They serve one run: a run that continues fills them again. Those of a cluster are on its nodes."""
        if self.cluster:
            return
        names = self.plan.study.contestants if self.plan.study.caches == caches.WARM else ()
        caches.remove(caches.warm_place(self.directory.root, name) for name in names)

    def run_round(self, plan: Plan) -> None:
        """Run the trials of this plan that are not done, then repeat the noisy ones."""
        options = self.options
        trials = prepare(
            *(self.directory, plan, self.interpreters, self.absent, options.keep_failed, self.console),
            self.cluster.attached if self.cluster else (),
        )
        if not options.amend:
            contestants = {str(trial.file.contestant) for trial in trials}
            code_changes.check_same_code(self.directory, self.changed_code, contestants)
        conditions = KnownConditions(self.directory, self.manifest)

        def launch(trials: list[PreparedTrial]) -> None:
            self.launch(plan, trials, conditions)

        launch(trials)
        if options.noise_limit:
            repeatable = [
                PreparedTrial(
                    trial_file(trial, self.interpreters[trial.cell.toolchain]), self.directory.trial(trial.id)
                )
                for trial in plan.trials
                if why_absent(self.absent, trial.cell) is None
                and (options.amend or trial.cell.contestant not in self.changed_code)
            ]
            run_until_quiet(repeatable, options.noise_limit, launch, self.console)

    def launch(self, plan: Plan, trials: list[PreparedTrial], conditions: KnownConditions) -> None:
        if self.cluster:
            trials = self.cluster.to_launch(trials)
        if not trials:
            return
        total = len(plan.trials)
        if len(trials) < total:
            ended = total - len(trials)
            self.console.print(f"{ended} of {total} trials have already ended; {len(trials)} to run")
        with stop_signals() as stop, open_display(self.console) as display:
            follower = Follower(display, len(trials), self.eta_of(plan, trials), conditions)
            if self.cluster and self.cluster.options.leaves:
                self.cluster.submit_and_leave(trials, follower)
                trials = []  # they were started, and this process stays
            with self.with_events(follower, display.print_line) as watcher:
                try:
                    run_trials(trials, self.launcher, watcher, stop)
                except KeyboardInterrupt:
                    if self.cluster:
                        raise self.cluster.interrupted() from None
                    raise

    def eta_of(self, plan: Plan, trials: list[PreparedTrial]) -> Eta:
        """Nothing is known of how long trials wait for a cluster."""
        running = {trial.id for trial in trials} if not self.cluster else set()
        ahead = {id_: trial for id_, trial in trials_ahead(plan).items() if id_ in running}
        return Eta(ahead, self.options.jobs or 1, self.pace)

    @property
    def wants_events(self) -> bool:
        return self.options.tensorboard or self.plan.study.tensorboard

    def with_events(
        self, watcher: Watcher, print_line: Callable[[str], None]
    ) -> AbstractContextManager[Watcher]:
        """Event files grow while trials run, if they are wanted and their library is installed."""
        if not (self.wants_events and importlib.util.find_spec("tensorboardX")):
            return nullcontext(watcher)
        from rldyno.session.live_events import with_events

        return with_events(watcher, self.directory, print_line)

    def answer(self) -> None:
        from rldyno.answers.analysis import Analysis
        from rldyno.answers.terminal import print_answer

        if not self.directory.has_outcomes():
            return
        analysis = Analysis.load(self.directory.root)
        print_answer(analysis, self.console)
        if self.options.report:
            from rldyno.report.page import write_report

            self.print_line(f"report: {write_report(analysis)}")

    def write_event_files(self) -> None:
        """For TensorBoard: those that are missing, of trials that ran without the option."""
        from rldyno.results.event_file import FOLDER
        from rldyno.results.tensorboard import write_all

        if not self.wants_events:
            return
        written = write_all(self.directory.root, self.print_line)
        self.print_line(written.sentence)
        self.print_line(f"tensorboard --logdir {self.directory.root / FOLDER}")

    def if_installed(self, purpose: str, step: Callable[[], None]) -> None:
        """Do a step that needs more libraries than trials do. Without them the trials still count."""
        try:
            with needed_for(purpose):
                step()
        except MissingLibrary as problem:
            self.print_line(f"{problem.message}\nfix: {problem.fix}")

    def print_line(self, line: str) -> None:
        self.console.print(line, markup=False, highlight=False, soft_wrap=True)
