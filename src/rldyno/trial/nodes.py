"""The workers of a trial on several nodes of a Slurm job: one `srun` starts them, each below a station.

A station is a process of the lab on the worker's node. The trial runner, on the first node, shares two
things with it: the trial's directory, in which the station notes where its worker runs and how it ended, and
signals.

What was seen with Slurm 22.05: srun passes SIGUSR1 and SIGUSR2 on to all tasks. When it gets SIGTERM, it
kills them. When it is killed, they are, too.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rldyno.errors import Problem
from rldyno.processes import team
from rldyno.processes.lab import OWN_MODULE, PER_NODE
from rldyno.processes.mpi import PMI
from rldyno.processes.rig import start_command
from rldyno.records.files import Json, read_json, write_json
from rldyno_rig.team.names import SUBDIRECTORY
from rldyno_rig.trial_file import TrialFile

PASSED_ON = {signal.SIGTERM: signal.SIGUSR2, signal.SIGABRT: signal.SIGUSR1}
"""What a worker gets → what srun gets for it."""
NODE_VARIABLE = "SLURMD_NODENAME"
_STATION = "rldyno.trial.station"
_LOG = "srun.log"
_TASK = re.compile(r"error: .*\btask (\d+): (.*)")


@dataclass(frozen=True)
class Began:
    """What a station notes when its worker has started."""

    pid: int
    node: str
    cpus: tuple[int, ...] | None
    processor: str
    gpu: str | None

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> Began:
        cpus = values["cpus"]
        pinned = None if cpus is None else tuple(map(int, cpus))
        models = str(values["processor"]), values["gpu"]
        return Began(int(values["pid"]), str(values["node"]), pinned, *models)

    def to_json(self) -> Json:
        cpus = None if self.cpus is None else list(self.cpus)
        models = {"processor": self.processor, "gpu": self.gpu}
        return {"pid": self.pid, "node": self.node, "cpus": cpus, **models}


def nodes_to_json(began: Sequence[Began]) -> Json:
    """Of the workers of a trial on several nodes, for `affinity` of outcome.json; empty for others."""
    if not began:
        return {}
    cpus = [None if one.cpus is None else list(one.cpus) for one in began]
    return {"workers": cpus, "nodes": [one.node for one in began]}


def note_beginning(directory: Path, rank: int, began: Began) -> None:
    write_json(_note(directory, rank), began.to_json())


def _note(directory: Path, rank: int) -> Path:
    return directory / SUBDIRECTORY / f"{rank}.began"


class Nodes:
    """The nodes of this process's job, of which it is on the first."""

    def __init__(self, directory: Path, trial: TrialFile, per_node: int) -> None:
        self.node = os.environ.get(NODE_VARIABLE, "")
        self.here = min(per_node, trial.workers)
        """Workers on this node: the first ones."""
        self._directory, self._trial, self._per_node = directory, trial, per_node
        self._began: dict[int, Began] = {}

    def start(self, spawn_ns: int) -> subprocess.Popen[bytes]:
        """Start all workers. Raises OSError."""
        team.prepare(self._directory, self._trial.workers)
        command = srun_command(self._directory, self._trial, self._per_node, self.node, spawn_ns)
        with (self._directory / SUBDIRECTORY / _LOG).open("wb") as log:
            return start_command(command, self._directory, os.environ, stdout=log)

    def began(self) -> dict[int, Began]:
        """Rank → what its station has noted so far."""
        with contextlib.suppress(OSError):
            os.scandir(self._directory / SUBDIRECTORY).close()  # a network's file system looks again
        for rank in range(self._trial.workers):
            if rank not in self._began:
                with contextlib.suppress(Problem, OSError):
                    self._began[rank] = Began.from_json(read_json(_note(self._directory, rank)))
        return self._began

    def pids_here(self) -> dict[int, int]:
        """Rank → the worker's process, of those on this node that have started."""
        return {rank: one.pid for rank, one in self.began().items() if one.node == self.node}

    def why_ended(self, code: int) -> tuple[str, int | None]:
        """What srun says, and the rank that it blames, when it has ended before the workers."""
        with contextlib.suppress(OSError):
            text = (self._directory / SUBDIRECTORY / _LOG).read_text(errors="replace")
            blamed = _TASK.search(text)
            if blamed:
                rank = int(blamed[1])
                return f"worker {rank} was lost: srun says `{blamed[2].strip()[:200]}`", rank
            lines = [line for line in text.splitlines() if line.strip()]
            if lines:
                return f"srun ended with code {code}: {lines[-1].strip()[:200]}", None
        return f"srun ended with code {code}", None


def srun_command(directory: Path, trial: TrialFile, per_node: int, node: str, spawn_ns: int) -> list[str]:
    """One step with all workers. Stations pin them: they know the probe's CPU."""
    nodes = -(-trial.workers // per_node)
    step = [f"--nodes={nodes}", f"--ntasks={trial.workers}", f"--ntasks-per-node={per_node}"]
    step += ["--distribution=block", "--cpu-bind=none", "--export=ALL", "--input=none"]
    step += ["--kill-on-bad-exit=1", f"--mpi={PMI if trial.by_mpi else 'none'}"]
    station: Sequence[str] = [sys.executable, *OWN_MODULE, _STATION, str(directory), node, str(spawn_ns)]
    return ["srun", *step, *station, PER_NODE, str(per_node)]
