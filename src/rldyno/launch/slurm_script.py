"""Batch scripts: what a trial needs of a cluster, as lines of sbatch, and the one command that it runs."""

from __future__ import annotations

import math
import shlex
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rldyno.config import SlurmSettings
from rldyno.errors import Problem
from rldyno.launch.launcher import PreparedTrial
from rldyno.processes.caches import WARM
from rldyno.processes.lab import OWN_MODULE, PER_NODE
from rldyno.processes.mpi import PMI


@dataclass(frozen=True)
class Needs:
    """What a trial occupies. Trials with the same needs share an array."""

    workers: int
    cores: int
    """Of each worker."""
    gpus: bool
    """Whether each worker has a GPU,"""
    shared: bool
    """or they share one."""

    @staticmethod
    def of(trial: PreparedTrial) -> Needs:
        file = trial.file
        return Needs(file.workers, file.cores, file.device != "cpu", file.share_gpu)

    def per_node(self, settings: SlurmSettings) -> int | None:
        """Workers on one node; None where one node has all of them."""
        allowed = settings.workers_per_node
        return None if allowed is None or allowed >= self.workers else allowed

    def options(self, settings: SlurmSettings) -> list[str]:
        spread = self.per_node(settings)
        if spread is None:  # the trial's process starts them all: to Slurm it is one task
            places = ["--nodes=1", "--ntasks=1"]
            cpus = self.workers * self.cores + settings.probe_cpu
        else:
            places = [f"--nodes={math.ceil(self.workers / spread)}", f"--ntasks={self.workers}"]
            places += [f"--ntasks-per-node={spread}"]
            cpus = self.cores + settings.probe_cpu
        found = [*places, f"--cpus-per-task={cpus}", "--hint=nomultithread"]
        if self.gpus:
            here = 1 if self.shared else spread or self.workers
            found.append(f"--gres={settings.gpu}:{here}")  # of each node
        return [*found, "--exclusive"] if settings.exclusive else found


def check_nodes(
    trials: Iterable[PreparedTrial], settings: SlurmSettings, mpi: Callable[[], Sequence[str]] | None
) -> None:
    """A Problem where a team cannot be spread over nodes as the settings ask.

    `mpi`: Slurm's ways to start MPI's processes; None: the cluster cannot be asked.
    """
    spread = [trial.file for trial in trials if Needs.of(trial).per_node(settings)]
    undo = "leave workers_per_node of [slurm] out"
    if any(file.caches == WARM for file in spread):
        raise Problem(
            "warm caches cannot be filled on the nodes of several workers",
            fix=f'write `caches = "cold"` into the study, or {undo}',
        )
    by_mpi = sorted({file.collective for file in spread if file.by_mpi})
    known = mpi() if mpi is not None and by_mpi else ()
    if known and PMI not in known:
        raise Problem(
            f"the collective `{by_mpi[0]}` on several nodes needs Slurm's {PMI}, "
            "and `srun --mpi=list` has it not",
            fix=f"use a collective that needs no MPI, such as `native` of torch, or {undo}",
        )


def array_script(
    name: str, needs: Needs, trials: Sequence[str], root: Path, logs: Path, settings: SlurmSettings
) -> str:
    """One element for each trial. `root`: the results directory."""
    throttle = f"%{settings.throttle}" if settings.throttle else ""
    options = [
        f"--array=0-{len(trials) - 1}{throttle}",
        f"--output={logs}/{name}-%a.log",
        *needs.options(settings),
        f"--signal=B:USR1@{settings.warn_s}",
    ]
    entry = shlex.join([sys.executable, *OWN_MODULE, "rldyno.trial.entry"])
    home = shlex.quote(str(root / "trials"))
    listed = "\n".join(f"  {shlex.quote(trial)}" for trial in trials)
    spread = needs.per_node(settings)
    over = "" if spread is None else f" {PER_NODE} {spread}"
    command = f'exec {entry} {home}/"${{trials[$SLURM_ARRAY_TASK_ID]}}"{over}'
    return _script(name, options, settings, [f"trials=(\n{listed}\n)", command])


def command_script(name: str, command: Sequence[str], logs: Path, settings: SlurmSettings) -> str:
    """The last job, on one CPU."""
    options = [f"--output={logs}/{name}.log", "--nodes=1", "--ntasks=1", "--cpus-per-task=1"]
    return _script(name, options, settings, [f"exec {shlex.join(command)}"], settings.last_lines)


def _script(
    name: str,
    options: Iterable[str],
    settings: SlurmSettings,
    body: Iterable[str],
    more: Iterable[str] = (),
) -> str:
    """`more`: options that come last. Of two that contradict each other sbatch takes the later one."""
    given = ("partition", "account", "qos", "time", "constraint")
    chosen = [f"--{key}={value}" for key in given if (value := getattr(settings, key)) is not None]
    # A job that is requeued goes on with the log of its first life.
    head = [
        f"--job-name={name}",
        *options,
        "--open-mode=append",
        "--requeue",
        *chosen,
        *settings.lines,
        *more,
    ]
    for option in head:
        if "\n" in option or "\r" in option:
            raise Problem(f"{option!a} is no line of a batch script", fix="rename what it names")
    # Without a module that was asked for, something else would be measured.
    before = [f"module load {shlex.quote(module)} || exit 1" for module in settings.modules]
    lines = ["#!/bin/bash", *(f"#SBATCH {option}" for option in head), *before, *settings.setup, *body]
    return "\n".join(lines) + "\n"
