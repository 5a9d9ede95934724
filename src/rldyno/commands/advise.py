"""`rldyno advise`: which contestant to take, how sure that is, and where the choice changes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from rldyno.answers.advice import Advice, Pick
    from rldyno.answers.axes import AxisAnswer
    from rldyno.answers.break_even import BreakEven
    from rldyno.answers.trust import Trust
    from rldyno.stats.estimates import Estimate

WIDTH = 100
SETTINGS_SHOWN = 6


def advise(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A results directory, finished or not.")],
    goal: Annotated[
        str | None,
        typer.Option(
            help="time (the default with a stop rule), throughput, memory, energy, startup, or a column."
        ),
    ] = None,
    algorithm: Annotated[str | None, typer.Option(help="Only this algorithm.")] = None,
    environment: Annotated[str | None, typer.Option(help="Only this environment.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the advice as JSON.")] = False,
) -> None:
    """Show which contestant to take; exit with 1 when the results allow no advice at all."""
    from rich.console import Console

    from rldyno.answers.analysis import Analysis

    found = Analysis.load(directory).advice(goal, algorithm, environment)
    if as_json:
        print(json.dumps([advice_json(item) for item in found], indent=2, ensure_ascii=False))
    else:
        console = Console(highlight=False)
        for item in found:
            print_advice(item, console)
    if not any(item.picks for item in found):
        raise typer.Exit(1)


def print_advice(found: Advice, console: Console) -> None:
    from rich.text import Text

    from rldyno.answers import wording
    from rldyno.answers.terminal import print_fix

    def print_line(text: str, style: str = "") -> None:
        console.print(Text(text, style), width=min(WIDTH, console.width))

    print_line(f"{found.task}, by {found.metric.words}", "bold")
    for pick in found.picks[:SETTINGS_SHOWN]:
        prefix = f"{pick.group.setting}: " if pick.group.setting else ""
        print_line(prefix + wording.pick_words(pick), "green")
        print_line(wording.confidence_words(pick))
        print_line(wording.evidence_words(pick), "dim")
    if len(found.picks) > SETTINGS_SHOWN:
        print_line(f"… and {len(found.picks) - SETTINGS_SHOWN} more settings; --json has them all.", "dim")
    for choice in found.by_axis:
        print_line(choice.words)
    for answer in found.axes[:SETTINGS_SHOWN]:
        print_line(answer.words)
    for pick, lengths in found.lengths[:SETTINGS_SHOWN]:
        prefix = f"{pick.group.setting}: " if pick.group.setting else ""
        print_line(prefix + wording.length_words(pick, lengths))
    alike: dict[Trust, list[str]] = {}
    for refusal in found.refusals:
        alike.setdefault(refusal.trust, []).append(refusal.group.setting)
    for trust, settings in alike.items():
        prefix = f"{'; '.join(settings)}: " if any(settings) else ""
        print_line(f"{prefix}No advice. {trust.words}", "red")
        for fix in trust.fixes:
            print_fix(console, fix)
    console.print()


def advice_json(found: Advice) -> dict[str, Any]:
    return {
        "task": found.task,
        "goal": found.goal,
        "picks": [pick_json(pick) for pick in found.picks],
        "refusals": [
            {
                "setting": item.group.setting,
                "why": item.why,
                "instead": item.instead,
                "objections": [objection.to_json() for objection in item.trust.objections],
            }
            for item in found.refusals
        ],
        "run_lengths": [
            {
                "setting": pick.group.setting,
                "shortest": lengths.shortest,
                "overtakes": [crossover_json(crossover) for crossover in lengths.crossovers],
                "modes": [crossover_json(crossover) for crossover in lengths.modes],
            }
            for pick, lengths in found.lengths
        ],
        "flips": [
            {
                "axis": choice.axis,
                "setting": choice.setting,
                "picks": [
                    {"levels": list(levels), "contestant": pick, "clear": clear}
                    for levels, pick, clear in choice.stretches
                ],
            }
            for choice in found.by_axis
        ],
        "axes": [axis_json(answer) for answer in found.axes],
    }


def pick_json(pick: Pick) -> dict[str, Any]:
    return {
        "setting": pick.group.setting,
        "contestant": pick.contestant,
        "metric": pick.metric.name,
        "value": estimate_json(pick.best.figures[pick.metric.name].estimate),
        "runner_up": pick.runner_up.contestant,
        "times_worse": estimate_json(pick.ratio),
        "confidence": pick.confidence,
        "objections": [objection.to_json() for objection in pick.trust.objections],
        "wins": estimate_json(pick.wins),
        "trials": [
            trial
            for name in (pick.contestant, pick.runner_up.contestant)
            for trial in pick.group.runs[name].trials
        ],
    }


def axis_json(answer: AxisAnswer) -> dict[str, Any]:
    return {
        "axis": answer.axis,
        "base": answer.base,
        "level": answer.level,
        "place": answer.place,
        "metric": answer.metric.name,
        "trust": answer.trust.level,
        "contestants": [
            {"contestant": item.contestant, "state": item.state, "times_as_fast": estimate_json(item.ratio)}
            for item in answer.changes
        ],
        "words": answer.words,
    }


def crossover_json(crossover: BreakEven) -> dict[str, Any]:
    return {
        "first": crossover.first,
        "then": crossover.then,
        "never": crossover.never,
        "steps": estimate_json(crossover.steps),
        "updates": estimate_json(crossover.updates),
        "words": crossover.words,
    }


def estimate_json(estimate: Estimate | None) -> dict[str, Any] | None:
    """Infinite bounds (never reached) have no JSON number: null."""
    from math import isfinite

    if estimate is None:
        return None
    numbers = {"point": estimate.point, "low": estimate.low, "high": estimate.high}
    finite = {
        name: value if value is not None and isfinite(value) else None for name, value in numbers.items()
    }
    return finite | {"runs": estimate.n, "bounds": estimate.kind}
