"""Which CPUs a worker gets and where the probe sits."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from rldyno.errors import Problem
from rldyno.machine.facts import cgroup_cores


def available_cpus() -> tuple[int, ...] | None:
    """The CPUs this process may use, whole cores first; None where the system has no affinity."""
    if not hasattr(os, "sched_getaffinity"):
        return None
    return whole_cores_first(os.sched_getaffinity(0))


def _siblings(cpu: int) -> str:
    try:
        return Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list").read_text().strip()
    except OSError:
        return str(cpu)


def whole_cores_first(cpus: Iterable[int], siblings: Callable[[int], str] = _siblings) -> tuple[int, ...]:
    """One hardware thread of each core, then the others: two workers share a core only when they must."""
    rank: dict[str, int] = {}
    ordered = []
    for cpu in sorted(cpus):
        core = siblings(cpu)
        rank[core] = rank.get(core, -1) + 1
        ordered.append((rank[core], cpu))
    return tuple(cpu for _, cpu in sorted(ordered))


def place(
    available: Sequence[int] | None,
    cores: int,
    jobs: int = 1,
    quota: Callable[[], float | None] = cgroup_cores,
    workers: int = 1,
) -> tuple[int | None, tuple[int, ...] | None]:
    """(CPU of the probe and the lab, CPUs for workers). One CPU is kept from the workers if enough remain.

    Without affinity both are None. Fewer CPUs than `workers` × `cores` × `jobs` is a Problem, and so is a
    container's quota of CPU time that is less: workers would be halted again and again.
    """
    granted, needed = quota(), workers * cores * jobs
    if granted is not None and needed > max(1, math.floor(granted)):
        how = f" at a time (CPU quota: {granted:g})"
        raise _too_few(max(1, math.floor(granted)), cores, jobs, workers, how)
    if available is None:
        if needed > (os.cpu_count() or 1):
            raise _too_few(os.cpu_count() or 1, cores, jobs, workers)
        return None, None
    if needed > len(available):
        raise _too_few(len(available), cores, jobs, workers)
    if needed < len(available):
        return available[0], tuple(available[1:])
    return None, tuple(available)


def _too_few(available: int, cores: int, jobs: int, workers: int, how: str = "") -> Problem:
    have = f"this process may use {available} CPU{'s' if available != 1 else ''}{how}"
    each = f"{cores} core{'s' if cores != 1 else ''}"
    if workers > 1:
        each = f"{workers} workers of {each}"
    if workers > 1 and workers * cores > available:
        return Problem(
            f"{each} need {workers * cores} CPUs, {have}",
            fix="give fewer `workers` or `cores` in the study, or run on a larger machine",
        )
    if cores > available:
        return Problem(
            f"{cores} cores are requested, {have}",
            fix=f"give at most {available} (`cores` of a study, --cores), or run on a larger machine",
        )
    return Problem(
        f"{jobs} jobs of {each} need {jobs * workers * cores} CPUs, {have}",
        fix=f"use --jobs {max(1, available // (workers * cores))}",
    )


def parse_cpus(text: str) -> tuple[int, ...]:
    """`0,2-4` → (0, 2, 3, 4)."""
    cpus: set[int] = set()
    try:
        for part in text.split(","):
            first, _, last = part.partition("-")
            cpus.update(range(int(first), int(last or first) + 1))
    except ValueError:
        cpus.clear()
    if not cpus:
        raise Problem(f"`{text}` is not a list of CPUs", fix="write it like 0,2-4")
    return tuple(sorted(cpus))
