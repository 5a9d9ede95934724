"""Beside a worker on a node of a cluster: start it, pass signals on, and note how it ended.

`srun` starts it, once for each worker of a trial (`nodes.py`). It dies with srun, and the worker with it.
"""

from __future__ import annotations

import argparse
import os
import resource
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rldyno.errors import Problem
from rldyno.machine.cpus import available_cpus, place
from rldyno.machine.devices import gpu_model
from rldyno.machine.facts import cpu_model
from rldyno.processes import caches, team
from rldyno.processes.children import signal_group
from rldyno.processes.lab import PER_NODE
from rldyno.processes.orphans import adopt_orphans, end_orphans
from rldyno.processes.rig import Runtime
from rldyno.records.files import write_atomically
from rldyno.records.trial_records import read_trial
from rldyno.trial.nodes import NODE_VARIABLE, PASSED_ON, Began, note_beginning
from rldyno.trial.places import Places
from rldyno.trial.worker import AbsentError
from rldyno_rig import schema
from rldyno_rig.team.names import ADDRESS_VARIABLE, home
from rldyno_rig.trial_file import TrialFile

_CANNOT_START = 1


@dataclass(frozen=True)
class Seat:
    """Where Slurm has put this process."""

    rank: int
    local: int
    """Its number among those on its node."""
    node: str
    address: str
    """Of the first node, where srun runs and rank 0 with it."""

    @staticmethod
    def of_environment() -> Seat:
        told = os.environ
        address = told.get(ADDRESS_VARIABLE) or told["SLURM_LAUNCH_NODE_IPADDR"]
        return Seat(int(told["SLURM_PROCID"]), int(told["SLURM_LOCALID"]), told[NODE_VARIABLE], address)


def run_worker(directory: Path, first_node: str, spawn_ns: int, per_node: int) -> int:
    """Run the worker of this process to its end; its exit code."""
    trial, seat = read_trial(directory), Seat.of_environment()
    log = home(directory, seat.rank) / schema.LOG_FILE
    # Clocks of other machines began at another time.
    began_ns = spawn_ns if seat.node == first_node else time.monotonic_ns()
    adopt_orphans()
    try:
        with _caches(directory, trial) as place_of_caches:
            code = _run(directory, trial, seat, log, place_of_caches, began_ns, per_node)
        used = resource.getrusage(resource.RUSAGE_CHILDREN)  # the worker, and what it started
        used_ns = round(1e9 * (used.ru_utime + used.ru_stime))
        write_atomically(team.note_of_cpu_time(directory, seat.rank), f"{used_ns}\n")
    except (OSError, Problem, AbsentError) as error:
        log.write_text(f"worker {seat.rank} cannot start on {seat.node}: {error}\n", encoding="utf-8")
        code = _CANNOT_START
    # As a shell says that a signal ended a program.
    write_atomically(team.note_of_exit(directory, seat.rank), f"{code if code >= 0 else 128 - code}\n")
    return code


def _run(
    directory: Path,
    trial: TrialFile,
    seat: Seat,
    log: Path,
    place_of_caches: Path | None,
    spawn_ns: int,
    per_node: int,
) -> int:
    here = min(per_node, trial.workers - (seat.rank - seat.local))
    needed = here * trial.cores
    _, pool = place(available_cpus(), needed)
    runtime = Runtime.of_trial(trial, place_of_caches)
    places = Places.of(trial, None if pool is None else pool[:needed], runtime.environment(), here)
    cpus = None if places.cpus is None else places.cpus[seat.local]
    variables = {**places.variables(seat.local), ADDRESS_VARIABLE: seat.address}
    post = team.Post(seat.rank, log, cpus, variables)
    # Through this file MPI's processes find each other.
    kept = [int(os.environ["PMI_FD"])] if "PMI_FD" in os.environ else []
    worker = team.start_post("train", directory, runtime, post, trial.workers, spawn_ns, kept)
    with _signals_to(worker.pid):
        models = cpu_model(), gpu_model(trial.device)
        note_beginning(directory, seat.rank, Began(worker.pid, seat.node, cpus, *models))
        code = worker.wait()
    end_orphans(())
    return code


@contextmanager
def _signals_to(group: int) -> Iterator[None]:
    """Pass the runner's signals on. SIGTERM comes from Slurm, to the runner, too: it decides."""
    for meant, sent in PASSED_ON.items():
        signal.signal(sent, lambda *_, meant=meant: signal_group(group, meant))
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    yield
    for sent in PASSED_ON.values():
        signal.signal(sent, signal.SIG_IGN)


@contextmanager
def _caches(directory: Path, trial: TrialFile) -> Iterator[Path | None]:
    """On the first node the trial runner has made them, and removes them."""
    if trial.caches is None:
        yield None
        return
    found = caches.cold_place(directory)
    own = not found.exists()
    caches.make(found, trial.variables)
    try:
        yield found
    finally:
        if own:
            caches.remove([found])


def main(arguments: list[str]) -> int:
    """0 when the end of the worker is noted, whatever it was: the trial runner decides about the others."""
    parser = argparse.ArgumentParser(prog="rldyno.trial.station")
    parser.add_argument("directory", type=Path)
    parser.add_argument("first_node")
    parser.add_argument("spawn_ns", type=int)
    parser.add_argument(PER_NODE, type=int, required=True)
    given = parser.parse_args(arguments)
    run_worker(given.directory, given.first_node, given.spawn_ns, given.per_node)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
