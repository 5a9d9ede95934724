"""Which contestants of a study can run on which of its devices, with how many workers."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from rldyno.toml.lines import Location
from rldyno.toml.source import Source
from rldyno.toolchains.contestants import Catalogue
from rldyno_rig.contestant import Contestant

MOST_WORKERS = 1
"""Of one trial: as many as the trial runner can start."""


class Placement(NamedTuple):
    """A contestant where it can run."""

    contestant: str
    device: str
    workers: int


def place(
    source: Source,
    contestants: Sequence[str],
    devices: Sequence[str],
    workers: Sequence[int],
    catalogue: Catalogue,
) -> tuple[list[Placement], list[str]]:
    """Every contestant × device × workers that can run, and why the others cannot.

    A combination that cannot run is left out. A contestant, device or number of workers for which no
    combination is left is a mistake.
    """
    placements: list[Placement] = []
    left_out: list[str] = []
    for contestant in contestants:
        framework = Contestant.parse(contestant).framework
        toolchain = catalogue[framework]
        supported = toolchain.modes[Contestant.parse(contestant).mode]
        usable = [device for device in devices if device in supported]
        most = MOST_WORKERS if toolchain.collectives else 1
        counts = [count for count in workers if count <= most]
        runs_on = f"it runs on {' and '.join(supported)} only"
        runs_with = f"{framework} runs with {_up_to(most)} only"
        location = _item(source, "contestants", contestant)
        if not usable:
            source.mistake(location, f"{contestant} on {_either(devices)}: {runs_on}")
        if not counts:
            source.mistake(location, f"{contestant} with {_either(workers)} workers: {runs_with}")
        placements += [Placement(contestant, *point) for point in itertools.product(usable, counts)]
        left_out += [f"{contestant} on {device}: {runs_on}" for device in devices if device not in usable]
        left_out += [f"{contestant} with {n} workers: {runs_with}" for n in workers if n not in counts]
    if not source.mistakes:
        _check_all_used(source, devices, workers, placements)
    return placements, left_out


def _check_all_used(
    source: Source, devices: Iterable[str], workers: Iterable[int], placements: Iterable[Placement]
) -> None:
    for device in set(devices) - {placement.device for placement in placements}:
        source.mistake(_item(source, "devices", device), f"no contestant of this study runs on {device}")
    for count in set(workers) - {placement.workers for placement in placements}:
        message = f"no contestant of this study runs with {count} workers"
        source.mistake(_item(source, "workers", count), message)


def _item(source: Source, key: str, value: Any) -> Location:
    raw = source.table.get(key)
    return (key, raw.index(value)) if isinstance(raw, list) and value in raw else (key,)


def _either(values: Iterable[Any]) -> str:
    return " or ".join(map(str, values))


def _up_to(workers: int) -> str:
    return "1 worker" if workers == 1 else f"up to {workers} workers"
