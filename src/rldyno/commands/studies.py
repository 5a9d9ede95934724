"""`rldyno studies`: the studies that come with rldyno."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console


@dataclass(frozen=True)
class Summary:
    """What a list shows of a study."""

    name: str
    title: str
    question: str
    contestants: tuple[str, ...]
    trials: int
    seconds: float | None
    """At most, one trial after the other; None where no trial has an estimate."""
    unknown_trials: int
    """Trials without an estimate."""
    nets: tuple[str, ...] = ()
    """Of a study that times networks alone, which has no trials."""
    rounds: int = 0


def studies(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="Print this study file.", show_default=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the list as JSON.")] = False,
) -> None:
    """List the studies that come with rldyno, or print one: `rldyno studies quickstart > my-study.toml`."""
    from rldyno.studies.shipped import networks_studies, shipped_studies, shipped_study

    if name is not None:
        print(shipped_study(name).read_text(encoding="utf-8"), end="")
        return
    found = [summary(path) for path in shipped_studies().values()]
    found += [networks_summary(name) for name in networks_studies()]
    found.sort(key=lambda study: study.name)
    if as_json:
        print(json.dumps([asdict(study) for study in found], indent=2, ensure_ascii=False))
        return
    from rich.console import Console

    print_summaries(found, Console(highlight=False, markup=False))


def summary(path: Path) -> Summary:
    from rldyno.session.estimate import estimate, load_rates
    from rldyno.study.file import load_study
    from rldyno.study.plan import make_plan

    study = load_study(path)
    plan = make_plan(study)
    estimated = estimate(plan, load_rates())
    known = len(plan.trials) - estimated.unknown
    return Summary(
        name=path.stem,
        title=study.title,
        question=study.question,
        contestants=study.contestants,
        trials=len(plan.trials),
        seconds=estimated.total_s if known else None,
        unknown_trials=estimated.unknown,
    )


def networks_summary(name: str) -> Summary:
    from rldyno.studies.networks_study import networks_study

    study = networks_study(name)
    assert study is not None
    return Summary(name, study.title, study.question, study.frameworks, 0, None, 0, study.nets, study.rounds)


def print_summaries(found: list[Summary], console: Console) -> None:
    from rich.padding import Padding
    from rich.text import Text

    for study in found:
        console.print(Text(study.name, "bold"))
        for line in (study.question, ", ".join(study.contestants), size_words(study)):
            console.print(Padding(Text(line), (0, 0, 0, 2), expand=False))
    console.print("\nRun one: rldyno run NAME. Copy one: rldyno studies NAME > my-study.toml", soft_wrap=True)


def size_words(study: Summary) -> str:
    from rldyno.commands.plan import spell_seconds

    if study.nets:
        return f"networks alone ({', '.join(study.nets)}), {study.rounds} rounds, no trials"
    if study.seconds is None:
        return f"{study.trials} trials, time unknown"
    unknown = f", unknown for {study.unknown_trials} trials" if study.unknown_trials else ""
    return f"{study.trials} trials, at most {spell_seconds(study.seconds)}{unknown}"
