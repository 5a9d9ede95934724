"""Whether this machine has the CPUs, GPUs and memory that the cells of a plan ask for."""

from __future__ import annotations

from collections.abc import Iterable

from rldyno.errors import Problem
from rldyno.machine.cpus import available_cpus, place
from rldyno.machine.devices import check_device, check_gpus, usable_gpus
from rldyno.machine.facts import usable_memory
from rldyno.proofs.prove import Environments
from rldyno.study.memory import replay_bytes
from rldyno.study.plan import Cell


def check_room(cells: Iterable[Cell]) -> None:
    """Before anything runs. A plan for a GPU may be made where there is none."""
    cells = list(cells)
    place_widest(available_cpus(), cells)
    check_memory(cells)
    if any(cell.device != "cpu" and cell.workers > 1 for cell in cells) and usable_gpus()[0]:
        check_devices(cells)


def place_widest(
    available: tuple[int, ...] | None, cells: Iterable[Cell], jobs: int = 1
) -> tuple[int | None, tuple[int, ...] | None]:
    """CPUs of the probe and for workers, enough for so many of the widest trials side by side."""
    widest = max(cells, key=lambda cell: cell.cpus)
    return place(available, widest.cores, jobs, workers=widest.workers)


def check_memory(cells: Iterable[Cell], environments: Environments | None = None) -> None:
    """A Problem where the replay memories of a trial need more than this machine has."""
    total = usable_memory()
    for cell in cells:
        found = (environments or {}).get((cell.framework, cell.environment))
        needed = cell.workers * (replay_bytes(cell, found) or 0)
        if needed > total:
            raise Problem(
                f"the replay memory of {cell.algorithm} on {cell.environment} takes "
                f"{needed / 1e9:,.1f} GB, more than the {total / 1e9:,.1f} GB that this process may use",
                fix=f"set a smaller `capacity` in [hyper.{cell.algorithm}] of the study",
            )


def check_devices(cells: Iterable[Cell]) -> None:
    """A Problem where one lacks its device, or a GPU for each of its workers."""
    cells = list(cells)
    for device in sorted({cell.device for cell in cells}):
        check_device(device, 'set `devices = ["cpu"]` in the study')
    apart = (cell.workers for cell in cells if cell.device != "cpu" and not cell.share_gpu)
    check_gpus(max(apart, default=1))
