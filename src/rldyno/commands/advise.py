"""`rldyno advise`: which contestant and algorithm to take, how sure that is, and where the choice changes."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from rldyno.answers.advice import Advice, Pick
    from rldyno.answers.algorithms import AlgorithmAdvice, Match
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
            help="time (the default with a stop rule), throughput, memory, energy, startup, a column, or "
            "usability."
        ),
    ] = None,
    algorithm: Annotated[
        str | None, typer.Option(help="Only this algorithm, and no advice on algorithms.")
    ] = None,
    environment: Annotated[str | None, typer.Option(help="Only this environment.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the advice as JSON.")] = False,
) -> None:
    """Show which contestant to take, and which algorithm where the study has several.

    Exit with 1 when the results allow no advice at all.
    """
    from rich.console import Console

    from rldyno.answers.analysis import Analysis
    from rldyno.commands.advise_usability import USABILITY, advise_usability

    if goal == USABILITY:
        advise_usability(directory, as_json, Console(highlight=False))
        return
    analysis = Analysis.load(directory)
    found = analysis.advice(goal, algorithm, environment)
    algorithms = () if algorithm else analysis.algorithm_advice(goal, environment)
    if as_json:
        items = [*map(advice_json, found), *map(algorithm_json, algorithms)]
        print(json.dumps(items, indent=2, ensure_ascii=False))
    else:
        console = Console(highlight=False)
        for item in found:
            print_advice(item, console)
        for chosen in algorithms:
            print_algorithms(chosen, found, console)
    if not any(item.picks for item in found) and not any(item.picks for item in algorithms):
        raise typer.Exit(1)


def print_advice(found: Advice, console: Console) -> None:
    from rldyno.answers import wording
    from rldyno.answers.terminal import print_fix

    print_line = printer(console)
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


def print_algorithms(found: AlgorithmAdvice, frameworks: Sequence[Advice], console: Console) -> None:
    from rldyno.answers import wording
    from rldyno.answers.terminal import print_fix

    print_line = printer(console)
    print_line(f"Algorithms on {found.place}, by {found.metric.words}", "bold")
    together = wording.together_words(found, frameworks)
    if together is not None:
        print_line(together, "green")
    for match, pick in found.picks[:SETTINGS_SHOWN]:
        print_line(wording.algorithm_words(match.contestant, pick), "green")
        print_line(wording.confidence_words(pick))
    if len(found.picks) > SETTINGS_SHOWN:
        print_line(f"… and {len(found.picks) - SETTINGS_SHOWN} more contestants; --json has them all.", "dim")
    print_line(f"Equal budgets: {found.matches[0].budget_words}.", "dim")
    alike: dict[Trust, list[str]] = {}
    for match in found.refusals:
        alike.setdefault(match.trust(found.metric), []).append(match.contestant)
    for trust, contestants in alike.items():
        print_line(f"{', '.join(contestants)}: No advice on the algorithm. {trust.words}", "red")
        for fix in trust.fixes:
            print_fix(console, fix)
    console.print()


def printer(console: Console) -> Callable[..., None]:
    from rich.text import Text

    def print_line(text: str, style: str = "") -> None:
        console.print(Text(text, style), width=min(WIDTH, console.width))

    return print_line


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


def algorithm_json(found: AlgorithmAdvice) -> dict[str, Any]:
    """With the keys of other advice, empty here, so that readers of `picks` need no exception."""
    empty: dict[str, Any] = {"picks": [], "refusals": [], "run_lengths": [], "flips": [], "axes": []}
    return {
        "task": f"algorithms on {found.place}",
        "goal": found.goal,
        **empty,
        "algorithm": found.agreed,
        "algorithms": [match_json(found, match) for match in found.matches],
    }


def match_json(found: AlgorithmAdvice, match: Match) -> dict[str, Any]:
    """One contestant's algorithms; `best` is null where no winner may be named."""
    pick, trust = match.pick(found.metric), match.trust(found.metric)
    figures = {
        row.contestant: row.figures[found.metric.name]
        for row in match.group.rows
        if found.metric.name in row.figures
    }
    return {
        "contestant": match.contestant,
        "metric": found.metric.name,
        "best": None if pick is None or pick.trust.tied else pick.contestant,
        "confidence": None if pick is None else pick.confidence,
        "budget": match.budget_words,
        "values": {
            name: {"value": estimate_json(figure.estimate), "times_worse": estimate_json(figure.ratio)}
            for name, figure in figures.items()
        },
        "objections": [objection.to_json() for objection in trust.objections],
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
    return None if estimate is None else estimate.to_json()
