"""`rldyno advise --goal usability`: where the frameworks of a study stand on each topic of usability."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

    from rldyno.usability.record import UsabilityRecord
    from rldyno.usability.standing import Standing

USABILITY = "usability"


def advise_usability(directory: Path, as_json: bool, console: Console) -> None:
    from rich.text import Text

    from rldyno.commands.usability import fitting
    from rldyno.usability import store
    from rldyno.usability.standing import sentences, standing, standing_table

    records, missing = known(directory)
    with store.shown(directory):
        found = standing(records)
        said = json.dumps([standing_json(found, missing)], indent=2, ensure_ascii=False)
        table, lines = fitting(standing_table(found), console), list(sentences(found))
    if as_json:
        print(said)
        return
    console.print(table)
    for line in lines:
        console.print(Text(line))
    if missing:
        fix = command(directory, [*records, *missing])
        console.print(Text(f"Not measured: {', '.join(missing)}. Fix: {fix}", "yellow"))


def known(directory: Path) -> tuple[dict[str, UsabilityRecord], list[str]]:
    """The records of the study's frameworks, and those that have none; a Problem if all have none.

    A directory that holds nothing but usability.json is asked about all that is in it.
    """
    from rldyno.errors import Problem
    from rldyno.records.directory import MANIFEST_FILE
    from rldyno.results.load import load_results
    from rldyno.usability import store

    file = store.read_beside(directory)
    if file is not None and not (directory / MANIFEST_FILE).exists():
        return dict(file.frameworks), []
    results = load_results(directory)
    found = store.of_results(results)
    missing = [name for name in store.ran_with(results) if name not in found]
    if not found:
        raise Problem(
            f"the usability of {', '.join(missing)} is not known here",
            fix=command(directory, missing),
            code=1,
        )
    return found, missing


def command(directory: Path, frameworks: list[str]) -> str:
    from rldyno.usability.store import FILE

    return f"rldyno usability {' '.join(frameworks)} -o {directory / FILE}"


def standing_json(found: Standing, missing: list[str]) -> dict[str, Any]:
    """With the keys of other advice, empty here, so that readers of `picks` need no exception."""
    empty: dict[str, Any] = {"picks": [], "refusals": [], "run_lengths": [], "flips": [], "axes": []}
    return {
        "task": USABILITY,
        "goal": USABILITY,
        **empty,
        "leaders": list(found.leaders),
        "best_on": found.wins,
        "topics": [
            {
                "topic": item.topic.name,
                "figure": item.topic.figure,
                "better": item.topic.better,
                "values": dict(item.values),
                "ranks": {name: item.rank(name) for name in item.values},
                "best": list(item.best),
            }
            for item in found.topics
        ],
        "busy": {name: list(names) for name, names in found.busy.items()},
        "missing": {name: list(lacking) for name, lacking in found.missing.items()},
        "not_measured": missing,
    }
