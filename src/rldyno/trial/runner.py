"""One trial: start the worker, watch it, stop it if necessary, and write the outcome.

This is what `rldyno trial DIR` runs, in a process of its own, on another CPU than the worker. It starts
once per trial: nothing heavy is imported here.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from rldyno.errors import UNWRITABLE, Problem
from rldyno.machine.devices import gpu_model
from rldyno.machine.facts import calibrate, cpu_model, host_sha256
from rldyno.machine.noise import Surroundings, frequency_mhz
from rldyno.probe import Probe
from rldyno.probe.hardware import Hardware, open_hardware
from rldyno.probe.perf import Counters
from rldyno.probe.probe import open_machine
from rldyno.probe.readings import Counted, Idle
from rldyno.processes.caches import WARM
from rldyno.processes.children import kill_all
from rldyno.processes.control import CANNOT_WRITE, StopFlag, pin, stop_signals
from rldyno.processes.orphans import adopt_orphans, children, end_leftovers, end_orphans
from rldyno.processes.rig import Runtime
from rldyno.records.attempts import TRIAL_LOCK, leftovers, put_aside
from rldyno.records.files import now_iso
from rldyno.records.locks import LockedError, locked
from rldyno.records.outcome import Outcome
from rldyno.records.seal import altered_files, file_hashes, write_record
from rldyno.records.trial_records import read_outcome, read_trial
from rldyno.trial import caches
from rldyno.trial.crew import Crew
from rldyno.trial.nodes import nodes_to_json
from rldyno.trial.outcome import Ending, Measured, make_outcome
from rldyno.trial.places import Places, workers_here
from rldyno.trial.worker import AbsentError, StoppedError
from rldyno_rig import schema
from rldyno_rig.trial_file import Conditions, TrialFile

UNSEEN = "of a script only its environments are seen"
"""Why a guest's result lacks figures."""
_CHECK_NS = 1_000_000_000
_LONGEST_WAIT_S = 0.25
"""A signal only sets a flag: it is noticed after this long at most."""
_TOLD_WITHIN_S = 2.0
"""In which Slurm's signal to end a job reaches all of its processes and nodes."""
_TERMINATED = (-signal.SIGTERM, 128 + signal.SIGTERM)
"""Exit codes of a worker that got this signal itself, as all processes of a preempted job do."""


def run_trial(
    trial_dir: Path, cpus: tuple[int, ...] | None, probe_cpu: int | None, per_node: int | None = None
) -> Outcome:
    """Run the trial and return its outcome, which is then also on disk. A trial that is done is not repeated.

    `per_node`: workers on each node of this job; None where all run here. `cpus`: of those that run here.
    Raises StoppedError when interrupted, Problem when it cannot be run or its records cannot be written.
    """
    trial_dir = trial_dir.resolve()
    trial = read_trial(trial_dir)
    adopt_orphans()
    try:
        with locked(trial_dir / TRIAL_LOCK):
            done = _done_outcome(trial_dir, trial.trial)
            return done or _attempt(trial_dir, trial, cpus, probe_cpu, per_node)
    except LockedError as error:
        raise Problem(
            f"another process ({error}) is running {trial_dir.name}", fix="wait for it, or stop it", code=1
        ) from None
    except OSError as error:
        if error.errno not in UNWRITABLE:
            raise
        raise Problem(
            f"cannot write the records of {trial_dir.name}: {error.strerror}",
            fix="free some space and run the same command again: only this trial is repeated",
            code=CANNOT_WRITE,
        ) from error


def _done_outcome(trial_dir: Path, trial: str) -> Outcome | None:
    """A directory that was started by hand may have any name: only the outcome and its files count."""
    try:
        outcome = read_outcome(trial_dir)
    except Problem:
        return None
    own = outcome.trial in ("", trial) and not altered_files(trial_dir, outcome.files)
    return outcome if outcome.done and own else None


def _attempt(
    trial_dir: Path,
    trial: TrialFile,
    cpus: tuple[int, ...] | None,
    probe_cpu: int | None,
    per_node: int | None,
) -> Outcome:
    if leftovers(trial_dir):
        end_leftovers(trial_dir)  # they may still write
    attempt = put_aside(trial_dir)
    pin(cpus)
    with stop_signals() as stop, caches.opened(trial_dir, trial) as place:
        runtime, started_at = Runtime.of_trial(trial, place), now_iso()
        filled_s: float | None = None
        try:
            places = Places.of(trial, cpus, runtime.environment(), per_node)
            if trial.caches == WARM and place is not None and trial.guest is None:
                filled_s = caches.fill(place, trial_dir, trial, runtime, places, stop)
            outcome = _measure(trial_dir, trial, attempt, runtime, cpus, places, probe_cpu, stop)
        except caches.UnfilledError as error:
            outcome = make_outcome(trial.trial, attempt, error.ending, started_at, trial_dir=trial_dir)
        except AbsentError as error:
            outcome = make_outcome(trial.trial, attempt, Ending.absent(str(error)), started_at)
        if place is not None:
            sections = {**outcome.sections, "caches": caches.section(trial, place, filled_s)}
            outcome = replace(outcome, sections=sections)
    if trial.guest is not None and outcome.result is not None:
        outcome = replace(outcome, reasons={**outcome.reasons, "result": UNSEEN})
    outcome = replace(outcome, files=file_hashes(trial_dir))
    write_record(trial_dir / schema.OUTCOME_FILE, outcome.to_json())
    return outcome


def _measure(
    trial_dir: Path,
    trial: TrialFile,
    attempt: int,
    runtime: Runtime,
    cpus: tuple[int, ...] | None,
    places: Places,
    probe_cpu: int | None,
    stop: StopFlag,
) -> Outcome:
    surroundings = _surroundings(trial, cpus)
    machine = open_machine()
    idle = idle_machine(trial.conditions, surroundings.host, machine.memory_percent())
    here = workers_here(trial, places.per_node)
    hardware = open_hardware(trial.device, 1 if trial.share_gpu else here, runtime.environment())
    kills, before = machine.oom_kills(), machine.cpu_times(cpus)
    started_at = now_iso()
    others = children()
    crew = Crew("train" if trial.guest is None else "guest", trial_dir, trial, runtime, places, trial_dir)
    pin(None if probe_cpu is None else (probe_cpu,))
    ending, measured = _watch(crew, trial_dir, trial, stop, surroundings, hardware, others)
    measured.cpu_times = before, machine.cpu_times(cpus)
    measured.out_of_memory = kills is not None and kills != machine.oom_kills()
    measured.cores = here * trial.cores if cpus is None else len(cpus)
    measured.workers, measured.watched = trial.workers, crew.watched
    measured.far_cpu_s = crew.far_cpu_s
    measured.idle = idle
    measured.affinity = places.to_json(probe_cpu) | nodes_to_json(crew.began)
    if crew.began:
        models = sorted({one.processor for one in crew.began})
        gpus = sorted({one.gpu for one in crew.began if one.gpu is not None})
        measured.surroundings = surroundings._replace(
            processor=" + ".join(models), gpu=" + ".join(gpus) or None
        )
    guest = trial.guest is not None
    return make_outcome(trial.trial, attempt, ending, started_at, measured, trial_dir, guest=guest)


def _surroundings(trial: TrialFile, cpus: tuple[int, ...] | None) -> Surroundings:
    """The calibration runs on the CPUs that this process is pinned to."""
    host = host_sha256()
    best = trial.conditions.best_calibration_ns.get(host)
    return Surroundings(host, calibrate(), best, frequency_mhz(cpus), cpu_model(), gpu_model(trial.device))


def idle_machine(conditions: Conditions, host: str, memory_percent: float) -> Idle:
    """CPU use takes a second to measure: `rldyno run` measures it once, before its trials."""
    reason = None
    if conditions.host is None:
        reason = "`rldyno run` measures it; this trial was started without it"
    elif conditions.host != host:
        reason = "measured on the machine that began the run, which is another one"
    elif conditions.idle_cpu_percent is None:
        reason = "measured together with the limits, which --no-limits skipped"
    return Idle(None if reason else conditions.idle_cpu_percent, reason, memory_percent)


def _watch(
    crew: Crew,
    trial_dir: Path,
    trial: TrialFile,
    stop: StopFlag,
    surroundings: Surroundings,
    hardware: Hardware,
    others: Collection[int],
) -> tuple[Ending, Measured]:
    """Sample until the crew ends or must be ended. Whatever happens here, no process is left behind, but
    for `others`: children of this process that were there before.
    """
    trees = crew.trees(lambda: stop.set or stop.time_is_up)
    counters = Counters(trees)
    probe: Probe | None = None
    cpu_before = time.process_time()
    try:
        output = (trial_dir / schema.SAMPLES_FILE).open("w", encoding="ascii", newline="")
        probe = Probe(trees, trial.sample_hz, output, crew.spawn_ns, hardware=hardware)
        ending = _sample_until_end(crew, probe, stop)
    finally:
        strays = probe.pids() if probe else []
        crew.stop(signal.SIGTERM)
        for pid in crew.pids:
            kill_all(pid, [stray for stray in strays if stray not in crew.pids])
        end_orphans(others)
        crew.close()
        hardware.finish(crew.end_ns - crew.spawn_ns)
        hardware.close()
        counted = Counted(counters.read(), counters.reasons, counters.kernel)
        counters.close()
        if probe:
            probe.close()
    return ending, Measured(
        wall_ns=crew.end_ns - crew.spawn_ns,
        usage=crew.usage,
        probe=probe,
        probe_cpu_s=time.process_time() - cpu_before,
        surroundings=surroundings,
        hardware=hardware,
        counted=counted,
    )


def _sample_until_end(crew: Crew, probe: Probe, stop: StopFlag) -> Ending:
    parent = os.getppid()
    next_sample = next_check = time.monotonic_ns()
    may_be_over = True
    while True:
        now = time.monotonic_ns()
        if now >= next_sample:
            probe.sample()
            next_sample += probe.interval_ns * (1 + (now - next_sample) // probe.interval_ns)
        if may_be_over and crew.over():
            ending = crew.finish()
            told_first = crew.told_first or ending.exit_code in _TERMINATED
            if ending.reason and (stop.set or (told_first and _stopped_soon(stop))):
                raise StoppedError
            return ending
        if stop.set:
            raise StoppedError
        if stop.time_is_up:
            crew.stop(signal.SIGTERM)
            return Ending("killed", "the time limit of its job was near: give it more time")
        if now >= next_check:
            next_check = now + _CHECK_NS
            if os.getppid() != parent:
                raise StoppedError
            if (fault := crew.misbehaves(now)) is not None:
                return fault
        may_be_over = crew.wait(min((next_sample - time.monotonic_ns()) / 1e9, _LONGEST_WAIT_S))


def _stopped_soon(stop: StopFlag) -> bool:
    """Whether this process must stop, too: the signal may have reached its workers a moment before."""
    deadline = time.monotonic() + _TOLD_WITHIN_S
    while not stop.set and time.monotonic() < deadline:
        time.sleep(0.02)
    return stop.set
