"""`rldyno trial DIR` without the command-line libraries, whose import takes as long as everything else."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rldyno.errors import Problem, print_problem
from rldyno.processes.lab import PER_NODE


def run_one(directory: Path, cpus: str | None, probe_cpu: int | None, per_node: int | None = None) -> int:
    """Exit code: 0 done, 1 failed, 3 records cannot be written, 130 interrupted.

    `per_node`: its workers run on several nodes of this job, so many on each.
    """
    from rldyno.machine.cpus import available_cpus, parse_cpus, place
    from rldyno.processes.control import INTERRUPTED
    from rldyno.records.trial_records import read_trial
    from rldyno.trial.places import workers_here
    from rldyno.trial.runner import run_trial
    from rldyno.trial.worker import StoppedError

    if cpus is None:
        trial = read_trial(directory)
        needed = workers_here(trial, per_node) * trial.cores
        free, pool = place(available_cpus(), needed)
        worker_cpus = None if pool is None else pool[:needed]
        probe_cpu = free if probe_cpu is None else probe_cpu
    else:
        worker_cpus = parse_cpus(cpus)
    try:
        outcome = run_trial(directory, worker_cpus, probe_cpu, per_node)
    except StoppedError:
        print(f"{directory.name}: interrupted; the same command runs it again", file=sys.stderr)
        return INTERRUPTED
    after = f" after {outcome.wall_s:.1f} s" if outcome.wall_s is not None else ""
    print(f"{outcome.trial}: {outcome.status} ({outcome.reason}){after}: {outcome.message}")
    return 0 if outcome.done else 1


def main(arguments: list[str]) -> int:
    """What a launcher starts; `rldyno trial` has the same arguments, but for several nodes."""
    parser = argparse.ArgumentParser(prog="rldyno trial")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--cpus")
    parser.add_argument("--probe-cpu", type=int)
    parser.add_argument(PER_NODE, type=int)
    given = parser.parse_args(arguments)
    try:
        return run_one(given.directory, given.cpus, given.probe_cpu, given.per_node)
    except Problem as problem:
        print_problem(problem)
        return problem.code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
