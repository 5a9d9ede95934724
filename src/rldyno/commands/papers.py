"""`rldyno papers`: the studies that repeat the work of the papers, and what each needs."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from rldyno.studies.networks_study import NetworksStudy
    from rldyno.study.file import Study


@dataclass(frozen=True)
class StudyNeeds:
    """What a study of a paper needs, in one of its sizes."""

    command: str
    frameworks: tuple[str, ...]
    unbuilt: tuple[str, ...]
    """Frameworks that are not built here yet: `rldyno run` builds them."""
    devices: tuple[str, ...]
    size: str
    """`80 trials, at most 40 min`."""
    obstacle: str
    """Why this machine cannot run it; empty where it can."""


def papers(as_json: Annotated[bool, typer.Option("--json", help="Print the list as JSON.")] = False) -> None:
    """List the studies that repeat the papers: what each needs, its time, and whether this machine can."""
    from rldyno.studies.papers import PAPERS

    found = {
        paper.name: [needs(study, quick=quick) for study in paper.studies for quick in (False, True)]
        for paper in PAPERS
    }
    if as_json:
        listed = [{**asdict(paper), "needs": [asdict(one) for one in found[paper.name]]} for paper in PAPERS]
        print(json.dumps(listed, indent=2, ensure_ascii=False))
        return
    from rich.console import Console

    print_papers(found, Console(highlight=False, markup=False))


def needs(name: str, *, quick: bool) -> StudyNeeds:
    from rldyno.studies.given import given_study
    from rldyno.studies.networks_study import networks_study

    command = f"rldyno run {name}" + (" --quick" if quick else "")
    networks = networks_study(name, quick)
    if networks is not None:
        return of_networks(command, networks)
    return of_study(command, given_study(Path(name), None, quick).study)


def of_study(command: str, study: Study) -> StudyNeeds:
    from rldyno.commands.studies import Summary, size_words
    from rldyno.errors import Problem
    from rldyno.session.estimate import estimate, load_rates
    from rldyno.session.room import check_devices, check_room
    from rldyno.study.plan import make_plan
    from rldyno_rig.contestant import Contestant

    plan = make_plan(study)
    time = estimate(plan, load_rates())
    known = time.unknown < len(plan.trials)
    size = Summary("", "", "", (), len(plan.trials), time.total_s if known else None, time.unknown)
    obstacle = ""
    try:
        check_room(plan.cells)
        check_devices(plan.cells)
    except Problem as problem:
        obstacle = problem.message
    frameworks = tuple(dict.fromkeys(Contestant.parse(name).framework for name in study.contestants))
    return StudyNeeds(command, frameworks, unbuilt(frameworks), study.devices, size_words(size), obstacle)


def of_networks(command: str, study: NetworksStudy) -> StudyNeeds:
    from rldyno.machine.devices import usable_gpus

    device = "cuda" if usable_gpus()[0] else "cpu"
    size = f"{len(study.nets)} network{'s' if len(study.nets) > 1 else ''}, {study.rounds} rounds"
    return StudyNeeds(command, study.frameworks, unbuilt(study.frameworks), (device,), size, "")


def unbuilt(frameworks: tuple[str, ...]) -> tuple[str, ...]:
    from rldyno.toolchains.catalogue import toolchain
    from rldyno.toolchains.resolve import state

    return tuple(name for name in frameworks if state(toolchain(name)).status not in ("ready", "given"))


def print_papers(found: dict[str, list[StudyNeeds]], console: Console) -> None:
    from rich.padding import Padding
    from rich.text import Text

    from rldyno.studies.papers import PAPERS

    for paper in PAPERS:
        console.print(Text.assemble((paper.name, "bold"), f"  {paper.about}"))
        for one in found[paper.name]:
            for indent, line in ((2, one.command), (4, needs_words(one))):
                console.print(Padding(Text(line), (0, 0, 0, indent), expand=False))
    console.print(
        "\nWhich claims hold: rldyno claims DIR. docs/papers.md has a page for each.", soft_wrap=True
    )


def needs_words(one: StudyNeeds) -> str:
    frameworks = ", ".join(
        name + (" (not built yet)" if name in one.unbuilt else "") for name in one.frameworks
    )
    here = f"not on this machine: {one.obstacle}" if one.obstacle else "runs on this machine"
    return f"{frameworks}; {' and '.join(one.devices)}; {one.size}; {here}"
