"""Which contestants of a study can run on which of its devices, with how many workers, averaging how."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from rldyno.toml.lines import Location
from rldyno.toml.source import Source
from rldyno.toolchains.contestants import Catalogue, Toolchain
from rldyno_rig.contestant import Contestant
from rldyno_rig.team.names import HOST, NATIVE, NONE
from rldyno_rig.team.share import WEAK


class Placement(NamedTuple):
    """A contestant where it can run."""

    contestant: str
    device: str
    workers: int = 1
    collective: str = NONE
    """How several workers average gradients."""
    scaling: str = WEAK


@dataclass(frozen=True)
class Places:
    """What a study crosses with its contestants."""

    devices: Sequence[str]
    workers: Sequence[int]
    collectives: Sequence[str] | None
    """None: `native` where a contestant has it, else `host`."""
    scalings: Sequence[str]


def place(
    source: Source, contestants: Sequence[str], places: Places, catalogue: Catalogue
) -> tuple[list[Placement], list[str]]:
    """Every contestant at every place where it can run, and why it cannot at the others.

    A combination that cannot run is left out. A contestant, device, number of workers or collective for which
    no combination is left is a mistake.
    """
    placements: list[Placement] = []
    left_out: list[str] = []
    for contestant in contestants:
        found, lacking = _places_of(Contestant.parse(contestant), places, catalogue)
        if not found:
            source.mistake(_item(source, "contestants", contestant), "; ".join(lacking))
        placements += found
        left_out += lacking
    if not source.mistakes:
        _check_all_used(source, places, placements)
    return placements, left_out


def _places_of(
    contestant: Contestant, places: Places, catalogue: Catalogue
) -> tuple[list[Placement], list[str]]:
    toolchain = catalogue[contestant.family]
    supported = toolchain.modes[contestant.mode]
    found: list[Placement] = []
    lacking: list[str] = []
    for device in places.devices:
        if device not in supported:
            lacking.append(f"{contestant} on {device}: it runs on {' and '.join(supported)} only")
            continue
        if 1 in places.workers:
            found.append(Placement(str(contestant), device))
        counts = [count for count in places.workers if count > 1]
        usable = list(_usable(contestant, device, places, toolchain, lacking)) if counts else []
        for count, collective, scaling in itertools.product(counts, usable, places.scalings):
            found.append(Placement(str(contestant), device, count, collective, scaling))
    return found, lacking


def _usable(
    contestant: Contestant, device: str, places: Places, toolchain: Toolchain, lacking: list[str]
) -> Iterator[str]:
    """The collectives with which a team of this contestant can train there."""
    having = [name for name, devices in toolchain.collectives.items() if device in devices]
    if not having:
        lacking.append(
            f"{contestant} with several workers: {contestant.framework} has no collective on {device}"
        )
    elif places.collectives is None:
        yield NATIVE if NATIVE in having else HOST if HOST in having else having[0]
    else:
        known = f"{contestant.framework} has {' and '.join(having)} on {device}"
        for name in places.collectives:
            if name in having:
                yield name
            else:
                lacking.append(f"{contestant} with the collective {name} on {device}: {known}")


def _check_all_used(source: Source, places: Places, placements: Sequence[Placement]) -> None:
    used = {value for placement in placements for value in placement}
    for device in set(places.devices) - used:
        source.mistake(_item(source, "devices", device), f"no contestant of this study runs on {device}")
    for count in set(places.workers) - {placement.workers for placement in placements}:
        message = f"no contestant of this study runs with {count} workers"
        source.mistake(_item(source, "workers", count), message)
    if max(places.workers) == 1:
        for key in ("collective", "scaling", "share_gpu"):
            if key in source.table:
                source.mistake((key,), "is for several workers: give `workers = [1, 2]`, or leave it out")
        return
    for name in set(places.collectives or ()) - used:
        message = f"no contestant of this study has the collective {name}"
        source.mistake(_item(source, "collective", name), message)


def _item(source: Source, key: str, value: Any) -> Location:
    raw = source.table.get(key)
    return (key, raw.index(value)) if isinstance(raw, list) and value in raw else (key,)
