"""What TensorBoard costs a training loop (`rldyno usability`) as evidence: each round is a run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from rldyno.claims.metrics import LOGGED, WATCHED, execution_of
from rldyno.columns import Column
from rldyno.records.files import Json
from rldyno.usability import store
from rldyno.usability.record import UsabilityFile
from rldyno.usability.rounds import BASES, BUSY, busy_words, ratios_of
from rldyno_rig.contestant import Contestant

KINDS: dict[str, Column] = dict(zip(BASES, (LOGGED, WATCHED), strict=True))


def read(directory: Path) -> list[UsabilityFile]:
    """The file of `rldyno usability -o`, if there is one that holds such rounds."""
    file = store.read_beside(directory)
    if file is None:
        return []
    with store.shown(directory):
        held = {name: found for name, found in file.frameworks.items() if found.part("visualisation")}
        kept = replace(file, frameworks=held)
        list(rounds(kept, {}))
    return [kept] if held else []


def rounds(file: UsabilityFile, place: Json) -> Iterator[Json]:
    """One row per round, with an objection where the machine was busy."""
    for name, record in file.frameworks.items():
        found = record.part("visualisation")
        contestant, load = Contestant(name, str(found["mode"])), float(found.get("load_before", 0.0))
        ratios = {column.name: ratios_of(found["rounds"], kind) for kind, column in KINDS.items()}
        for number in range(len(found["rounds"])):
            yield {
                "device": "cpu",
                "cores": file.machine.cores_usable,
                "trial": f"{contestant} TensorBoard round {number}",
                "contestant": str(contestant),
                "framework": contestant.framework,
                "mode": contestant.mode,
                "execution": execution_of(contestant.mode),
                **place,
                **{column: values[number] for column, values in ratios.items() if values},
                "objection": busy_words(load) if load > BUSY else "",
            }
