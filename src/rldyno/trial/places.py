"""Where the workers of a trial compute: CPUs and a GPU for each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rldyno.errors import Problem
from rldyno.machine.devices import HIDDEN, gpu_names
from rldyno.records.files import Json
from rldyno.trial.worker import AbsentError
from rldyno_rig.trial_file import TrialFile


@dataclass(frozen=True)
class Places:
    cpus: tuple[tuple[int, ...], ...] | None
    """Of each worker; None where the system has no affinity."""
    gpus: tuple[str, ...] | None = None
    """Of each worker of a team on GPUs, as CUDA names it; None otherwise: one worker sees them all."""
    per_node: int | None = None
    """Workers on each node, on the last one perhaps fewer; None where all are on this machine."""

    @staticmethod
    def of(
        trial: TrialFile,
        cpus: tuple[int, ...] | None,
        variables: Mapping[str, str],
        per_node: int | None = None,
    ) -> Places:
        """Of the workers on this node. `variables`: what they inherit.

        Raises AbsentError if there are too few GPUs.
        """
        gpus, here = None, workers_here(trial, per_node)
        if trial.workers > 1 and trial.device != "cpu":
            gpus = _gpus(here, trial.share_gpu, gpu_names(variables))
        return Places(None if cpus is None else _slices(cpus, here), gpus, per_node)

    def variables(self, rank: int) -> dict[str, str]:
        return {} if self.gpus is None else {HIDDEN: self.gpus[rank]}

    def to_json(self, probe_cpu: int | None) -> Json:
        """`affinity` of outcome.json."""
        every = None if self.cpus is None else [cpu for own in self.cpus for cpu in own]
        said: Json = {"worker": every, "probe": None if probe_cpu is None else [probe_cpu]}
        if self.cpus is not None and len(self.cpus) > 1:
            said["workers"] = [list(own) for own in self.cpus]
        if self.gpus is not None:
            said["gpus"] = list(self.gpus)
        return said


def workers_here(trial: TrialFile, per_node: int | None) -> int:
    """Of the trial's workers those that run on the first node."""
    return trial.workers if per_node is None else min(per_node, trial.workers)


def _slices(cpus: tuple[int, ...], workers: int) -> tuple[tuple[int, ...], ...]:
    each, left = divmod(len(cpus), workers)
    if left or not each:
        raise Problem(
            f"{len(cpus)} CPUs cannot be divided among {workers} workers",
            fix=f"give each of the {workers} workers the same number of CPUs",
        )
    return tuple(cpus[rank * each : (rank + 1) * each] for rank in range(workers))


def _gpus(workers: int, shared: bool, visible: list[str]) -> tuple[str, ...]:
    needed = 1 if shared else workers
    if len(visible) < needed:
        raise AbsentError(
            f"{workers} workers need a GPU each, {len(visible)} can be seen; "
            "`share_gpu = true` in the study lets them share one"
        )
    return tuple(visible[:1] * workers if shared else visible[:workers])
