"""`rldyno run`: from a study file to finished trials; the same call again goes on where it stopped."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rich.markup import escape

from rldyno.errors import Problem
from rldyno.launch.local import Pool, Runner, run_trials
from rldyno.limits.disturbance import any_is_busy
from rldyno.machine.cpus import available_cpus, place
from rldyno.machine.devices import check_device
from rldyno.probe.probe import idle_cpu_percent
from rldyno.processes.control import pin, stop_signals
from rldyno.proofs import certificates
from rldyno.records import files as records
from rldyno.records.directory import working_in
from rldyno.records.files import DONE, FAILED, Json, Results, TrialState
from rldyno.session import manifest, rounds, upkeep
from rldyno.session.estimate import estimate, load_rates, remember
from rldyno.session.preparation import contestants_to_run, devices_to_run, prepare
from rldyno.session.progress import Display, Eta, Snapshot, duration, open_display, read_figures
from rldyno.session.reruns import NoiseLimit, run_until_quiet
from rldyno.study.file import load_study
from rldyno.study.plan import Plan, make_plan
from rldyno.toolchains.resolve import Interpreter, ensure
from rldyno_rig.schema import OUTCOME_FILE

if TYPE_CHECKING:
    from rich.console import Console

_WARNINGS_SHOWN = 10


@dataclass(frozen=True)
class Options:
    out: Path | None = None
    overrides: Mapping[str, Path] | None = None
    """Framework → interpreter to use instead of a built toolchain."""
    jobs: int = 1
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


def run_study(study_path: Path, options: Options, console: Console) -> bool:
    """Run what is not finished yet; True when every trial of the study is done."""
    plan = make_plan(load_study(study_path))
    available = available_cpus()
    probe_cpu, worker_cpus = place(available, max(cell.cores for cell in plan.cells), options.jobs)
    results = Results(options.out or Path("results") / study_path.stem)
    with working_in(results):
        earlier = results.read_manifest() if results.manifest.exists() else None
        if earlier and not options.amend:
            manifest.check_same_study(results, earlier, plan.study)
        part = rounds.begun(plan, earlier)
        for device in devices_to_run(results, part, options.keep_failed):
            check_device(device, 'set `devices = ["cpu"]` in the study')
        interpreters, absent = find_interpreters(plan, options, console)
        current = manifest.make_manifest(part, interpreters, earlier)
        if earlier and not options.amend:
            manifest.check_same_conditions(results, earlier, current)
        if earlier and options.amend:
            manifest.note_amendment(current, results, earlier, plan.study)
        records.write_atomically(results.study, study_path.read_text(encoding="utf-8"))
        records.write_json(results.manifest, current)
        to_run = contestants_to_run(results, part, options.keep_failed)
        if not to_run:
            console.print(f"all {len(part.trials)} trials have ended before", highlight=False)
        changed = certify(results, part, to_run, interpreters, options, console)
        if options.limits:
            current |= machine_figures(plan, current, bool(to_run), options, console)
            records.write_json(results.manifest, current)

        def run(part: Plan) -> None:
            launch = partial(_launch, results, part, options.jobs, Pool(worker_cpus), probe_cpu, console)
            todo = prepare(results, part, interpreters, absent, options.keep_failed, console)
            if not options.amend:
                upkeep.check_same_code(results, changed, {content["contestant"] for content, _ in todo})
            launch(todo)
            if options.noise_limit:
                same = [
                    trial for trial in part.trials if options.amend or trial.cell.contestant not in changed
                ]
                homes = [results.trial(trial.id) for trial in same]
                run_until_quiet(homes, options.noise_limit, launch, console)

        hours = rounds.Hours(options.hours and options.hours * 3600)
        pin(None if probe_cpu is None else (probe_cpu,))
        try:
            rounds.run_opening(part, run, hours)
            part = rounds.add_seeds(results, plan, current, run, hours, console)
        finally:
            pin(available)
        finished = summarise(results, part, console)
        if any(results.trials.glob(f"*/{OUTCOME_FILE}")):
            answer(results, options.report, console)
        if options.tensorboard or plan.study.tensorboard:
            write_event_files(results, console)
        return finished


def certify(
    results: Results,
    plan: Plan,
    to_run: set[str],
    interpreters: Mapping[str, Interpreter],
    options: Options,
    console: Console,
) -> dict[str, list[str]]:
    """Prove what will run and what ran unproven; return the contestants whose code has changed since."""
    changed = upkeep.changed_code(results, plan)
    if not options.amend:
        upkeep.check_same_code(results, changed, to_run)
    upkeep.tell(results, changed, to_run, console)
    if options.verify:
        # Seeds may be added to any contestant whose code is still the one that ran.
        unchanged = set(plan.study.contestants) - (set() if options.amend else changed.keys())
        expected = to_run | (unchanged if plan.study.adaptive else set())
        wanted = upkeep.to_prove(results, plan, changed, expected, interpreters)
        certificates.ensure(wanted, interpreters, results.root, console)
    return changed


def find_interpreters(
    plan: Plan, options: Options, console: Console
) -> tuple[dict[str, Interpreter], dict[str, Problem]]:
    """(framework → interpreter, framework → why there is none): one that fails keeps no other back."""
    from rldyno.toolchains.progress import shown_progress

    found: dict[str, Interpreter] = {}
    absent: dict[str, Problem] = {}
    for framework in dict.fromkeys(cell.framework for cell in plan.cells):
        try:
            with shown_progress(console) as on_progress:
                found |= ensure([framework], options.overrides, options.pip_args, on_progress)
        except Problem as problem:
            absent[framework] = problem
    return found, absent


def _launch(
    results: Results,
    plan: Plan,
    jobs: int,
    pool: Pool,
    probe_cpu: int | None,
    console: Console,
    todo: list[tuple[Json, Path]],
) -> None:
    if not todo:
        return
    kept = len(plan.trials) - len(todo)
    if kept:
        console.print(f"{kept} of {len(plan.trials)} trials have ended before; {len(todo)} to run")
    ids = {trial["trial"] for trial, _ in todo}
    guesses = estimate(plan, load_rates()).guesses
    seconds = {
        trial.id: guess.seconds
        for trial, guess in zip(plan.trials, guesses, strict=True)
        if trial.id in ids and guess.seconds is not None
    }
    with stop_signals() as stop, open_display(console) as display:
        watcher = Progress(display, len(todo), Eta(seconds, jobs))
        run_trials(todo, jobs, pool, probe_cpu, watcher, stop)


class Progress:
    """Shows what the launcher tells it, and teaches the estimates."""

    def __init__(self, display: Display, total: int, eta: Eta) -> None:
        self._display = display
        self._total = total
        self._eta = eta
        self._started = time.monotonic()
        self._done = self._failed = 0

    def tick(self, running: Iterable[Runner]) -> None:
        figures = {
            runner.trial["trial"]: read_figures(runner.directory, runner.trial["budget"])
            for runner in running
        }
        shares = {trial: shown.budget_share or 0.0 for trial, shown in figures.items()}
        self._display.update(
            Snapshot(
                done=self._done,
                failed=self._failed,
                total=self._total,
                running=figures,
                elapsed_s=time.monotonic() - self._started,
                eta_s=self._eta.remaining_s(shares),
            )
        )

    def ended(self, runner: Runner) -> None:
        trial = runner.trial["trial"]
        self._eta.finished(trial, time.monotonic() - runner.started)
        state = records.trial_state(runner.directory)
        if state.name == DONE and state.outcome:
            self._done += 1
            remember(runner.trial, state.outcome)
            what = f"done ({state.outcome['reason']}) after {duration(state.outcome['wall_s'])}"
        elif state.outcome:
            self._failed += 1
            what = f"failed ({state.outcome['reason']}): {state.outcome['message']}"
        else:
            self._failed += 1
            what = f"ended without an outcome: {runner.said() or runner.process.returncode}"
        self._display.say(f"[{self._done + self._failed}/{self._total}] {trial}: {what}")


def summarise(results: Results, plan: Plan, console: Console) -> bool:
    """Say what failed and why; True when every trial is done."""
    states = {trial.id: records.trial_state(results.trial(trial.id)) for trial in plan.trials}
    failed = {trial: state for trial, state in states.items() if state.name == FAILED}
    for message, trials in _by_message(failed).items():
        console.print(escape(f"failed: {message}"), style="red", highlight=False, soft_wrap=True)
        for trial in trials:
            console.print(f"  {results.trial(trial)}", markup=False, highlight=False, soft_wrap=True)
        outcome = failed[trials[0]].outcome or {}
        for line in (outcome.get("log_tail") or "").splitlines()[-10:]:
            console.print(f"  | {line}", markup=False, highlight=False, soft_wrap=True)
    _print_warnings(states, console)
    done = sum(state.name == DONE for state in states.values())
    if done < len(states):
        rest = f"{len(states) - done} of {len(states)} trials are not done"
        console.print(f"{rest}; the same command runs them again", highlight=False)
    return done == len(states)


def _print_warnings(states: Mapping[str, TrialState], console: Console) -> None:
    found = [
        f"warning: {trial}: {warning}"
        for trial, state in states.items()
        for warning in (state.outcome or {}).get("warnings") or ()
    ]
    rest = len(found) - _WARNINGS_SHOWN
    more = [f"{rest} more warnings: `rldyno export` has them all"] if rest > 0 else []
    for line in [*found[:_WARNINGS_SHOWN], *more]:
        console.print(escape(line), style="yellow", highlight=False, soft_wrap=True)


def answer(results: Results, report: bool, console: Console) -> None:
    from rldyno.answers.analysis import Analysis
    from rldyno.answers.terminal import print_answer

    print_answer(Analysis.load(results.root), console)
    if not report:
        return
    from rldyno.report import write_report

    console.print(f"report: {write_report(results.root)}", markup=False, highlight=False, soft_wrap=True)


def machine_figures(plan: Plan, current: Json, to_run: bool, options: Options, console: Console) -> Json:
    """What the manifest says of this machine before the first trial.

    Limits come from the cache, or are measured now, in seconds. Those of a busy machine are looked up again.
    """
    from rldyno.limits.study import study_limits

    def tell(line: str) -> None:
        console.print(line, markup=False, highlight=False, soft_wrap=True)

    found: Json = {}
    if to_run:
        found["idle_cpu_percent"] = idle_cpu_percent()
    if to_run or any_is_busy(current["limits"]):
        found["limits"] = study_limits(plan, options.overrides, tell)
    return found


def write_event_files(results: Results, console: Console) -> None:
    """When no trial is running any more: nothing that is measured can be disturbed."""
    from rldyno.results.tensorboard import FOLDER, write_all

    def tell(line: str) -> None:
        console.print(line, markup=False, highlight=False, soft_wrap=True)

    written = write_all(results.root, tell)
    tell(written.sentence)
    tell(f"tensorboard --logdir {results.root / FOLDER}")


def _by_message(failed: Mapping[str, TrialState]) -> dict[str, list[str]]:
    """`reason: message` → its trials: one cause that fails many trials is told once."""
    grouped: dict[str, list[str]] = {}
    for trial, state in failed.items():
        outcome = state.outcome or {}
        grouped.setdefault(f"{outcome.get('reason')}: {outcome.get('message')}", []).append(trial)
    return grouped
