"""`rldyno plan`: the trials of a study, their order and their duration."""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rldyno.commands.options import Place, Quick, Seeds

if TYPE_CHECKING:
    from rich.console import Console

    from rldyno.session.estimate import TimeEstimate
    from rldyno.study.plan import Plan, Trial
    from rldyno_rig.trial_file import Budget

SHOWN_TRIALS = 60
NOTABLE_BYTES = 50_000_000


def plan(
    study: Annotated[
        Path, typer.Argument(metavar="STUDY", help="A study file, a shipped study, or a results directory.")
    ],
    seeds: Seeds = None,
    quick: Quick = False,
    show_all: Annotated[bool, typer.Option("--all", help="Show every trial of a long plan.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the plan as JSON.")] = False,
    launcher: Annotated[
        Place,
        typer.Option("--launcher", help="slurm: the trials need not have room on this machine."),
    ] = Place.LOCAL,
) -> None:
    """Show the trials of a study, their order and how long they take, without running anything."""
    from rich.console import Console

    from rldyno.session.estimate import estimate, load_rates
    from rldyno.session.room import check_room
    from rldyno.studies.given import given_study
    from rldyno.study.plan import make_plan

    planned = make_plan(given_study(study, seeds, quick).study)
    if launcher is Place.LOCAL:
        check_room(planned.cells)
    estimated = estimate(planned, load_rates())
    if as_json:
        print(json.dumps(plan_json(planned, estimated), indent=2))
    else:
        print_plan(Console(highlight=False, markup=False), planned, estimated, show_all=show_all)


def plan_json(plan: Plan, estimate: TimeEstimate) -> dict[str, Any]:
    from rldyno.study.memory import replay_bytes
    from rldyno.study.origins import inherited, untuned

    return {
        "title": plan.study.title,
        "study_sha256": plan.study.sha256,
        "cells": len(plan.cells),
        "left_out": list(plan.study.left_out),
        "untuned": [task.to_json() for task in untuned(plan.study)],
        "from_tuned_sets": [
            {"algorithm": algorithm, "environment": environment, "hyper": kept}
            for algorithm, environment in itertools.product(plan.study.algorithms, plan.study.environments)
            if (kept := inherited(plan.study, algorithm, environment))
        ],
        "adaptive": plan.study.adaptive.model_dump() if plan.study.adaptive else None,
        "opening_trials": len(plan.opening),
        "estimate": {
            "opening_s": opening_estimate(plan, estimate).total_s,
            "total_s": estimate.total_s,
            "unknown_trials": estimate.unknown,
        },
        "trials": [
            {
                **trial.to_json(),
                "estimate_s": guess.seconds,
                "estimate_source": guess.source,
                "replay_bytes": replay_bytes(trial.cell),
            }
            for trial, guess in zip(plan.trials, estimate.guesses, strict=True)
        ],
    }


def print_plan(console: Console, plan: Plan, estimate: TimeEstimate, *, show_all: bool) -> None:
    from rich.table import Table

    from rldyno.text.terminal import print_fitting

    shown = len(plan.opening) if show_all else shown_trials(plan)
    rows = [_row(plan, trial) for trial in plan.trials]
    constant = {name: value for name, value in rows[0].items() if all(row[name] == value for row in rows)}
    for line in _heading(plan, constant):
        console.print(line, soft_wrap=True)
    varying = [name for name in rows[0] if name not in constant]
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("block", "order", *varying, "at most"):
        table.add_column(name, justify="right" if name in _NUMBERS else "left", no_wrap=True)
    for index in range(shown):
        trial, row = plan.trials[index], rows[index]
        starts_block = index == 0 or plan.trials[index - 1].block != trial.block
        block = str(trial.block + 1) if starts_block else ""
        values = [row[name] for name in varying]
        table.add_row(block, str(index + 1), *values, spell_seconds(estimate.guesses[index].seconds))
    print_fitting(table, console, ("contestant", "seed", "at most"), "rldyno plan STUDY --json")
    if shown < len(plan.opening):
        console.print(f"… and {len(plan.opening) - shown} more trials; --all shows them")
    for line in _totals(plan, estimate):
        console.print(line, soft_wrap=True)


def shown_trials(plan: Plan) -> int:
    """Whole blocks up to the limit; a part of the first block if that is longer."""
    if len(plan.opening) <= SHOWN_TRIALS:
        return len(plan.opening)
    per_block = len(plan.cells)
    return per_block * (SHOWN_TRIALS // per_block) or SHOWN_TRIALS


def spell_seconds(seconds: float | None) -> str:
    if seconds is None:
        return "unknown"
    if seconds < 100:
        return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60:02d} min"


_NUMBERS = ("block", "order", "cores", "workers", "episode steps", "seed", "at most")


def _row(plan: Plan, trial: Trial) -> dict[str, str]:
    cell = trial.cell
    given = plan.study.axes(cell.algorithm, cell.environment)
    axes = {name: getattr(cell.hyper, name) for name, values in given.items() if len(values) > 1}
    return {
        "contestant": cell.contestant,
        "algorithm": cell.algorithm,
        "environment": cell.environment,
        "episode steps": str(cell.max_episode_steps or ""),
        "device": cell.device,
        "cores": str(cell.cores),
        "workers": str(cell.workers),
        "collective": cell.collective if cell.workers > 1 else "",
        "scaling": cell.scaling if cell.workers > 1 else "",
        "seed": str(trial.seed),
        "hyper-parameters": _assignments(axes.items()),
    }


def _assignments(values: Iterable[tuple[str, Any]]) -> str:
    return ", ".join(f"{name}={_spell(value)}" for name, value in values)


def _spell(value: Any) -> str:
    """A value as the study writes it."""
    return json.dumps(value, separators=(",", ":")).replace('"', "")


def _readable(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else _spell(value)


def _heading(plan: Plan, constant: dict[str, str]) -> list[str]:
    from rldyno.study.origins import inherited, untuned, untuned_words

    study = plan.study
    same = [f"{name} {value}" for name, value in constant.items() if value]
    lines = [study.title, study.question]
    lines.append(
        "every trial: "
        + " · ".join([*same, study.dtype, f"{study.division} division", f"{study.caches} caches"])
    )
    lines.append(f"ends at: {spell_budget(plan.cells[0].budget)}")
    for algorithm, environment in itertools.product(study.algorithms, study.environments):
        given = study.axes(algorithm, environment)
        fixed = {name: values[0] for name, values in given.items() if len(values) == 1}
        if fixed:
            lines.append(f"{algorithm} on {environment}: {_assignments(fixed.items())}")
        if kept := inherited(study, algorithm, environment):
            values = ", ".join(f"{name} {_readable(value)}" for name, value in kept.items())
            lines.append(f"{values} from the tuned set of {algorithm} on {environment}")
    lines += _memories(plan)
    lines += [f"{untuned_words(t)} (rldyno hyper {t.algorithm} {t.environment})" for t in untuned(study)]
    return [*filter(None, lines), ""]


def _memories(plan: Plan) -> list[str]:
    """One line for each replay memory that takes a notable part of a machine's."""
    from rldyno.study.memory import replay_bytes
    from rldyno_rig.hyper import Replayed

    lines = (
        f"replay memory of {cell.algorithm} on {cell.environment}: {size / 1e9:.2f} GB when full, "
        f"{cell.hyper.capacity:,} transitions" + (", in each worker" if cell.workers > 1 else "")
        for cell in plan.cells
        if isinstance(cell.hyper, Replayed) and (size := replay_bytes(cell) or 0) >= NOTABLE_BYTES
    )
    return list(dict.fromkeys(lines))


def spell_budget(budget: Budget) -> str:
    limits = []
    if budget.stop_return is not None and budget.stop_ends:
        limits.append(f"mean return ≥ {budget.stop_return:g} over {budget.stop_episodes} episodes")
    if budget.steps is not None:
        limits.append(f"{budget.steps:,} steps")
    if budget.episodes is not None:
        limits.append(f"{budget.episodes:,} episodes")
    if budget.wall_s is not None:
        limits.append(f"{budget.wall_s:g} s")
    noted = ""
    if budget.stop_return is not None and not budget.stop_ends:
        noted = f"; notes when the mean return of {budget.stop_episodes} episodes is ≥ {budget.stop_return:g}"
    return " or ".join(limits) + noted


def opening_estimate(plan: Plan, estimate: TimeEstimate) -> TimeEstimate:
    return dataclasses.replace(estimate, guesses=estimate.guesses[: len(plan.opening)])


def _totals(plan: Plan, estimate: TimeEstimate) -> list[str]:
    opening, seeds = len(plan.opening), len(plan.study.seeds)
    adaptive = plan.study.adaptive
    cells = f"{len(plan.cells)} cell{'s' if len(plan.cells) > 1 else ''}"
    fewest = adaptive.min if adaptive else seeds
    trials, each = ("s" if number > 1 else "" for number in (opening, fewest))
    counted = f"{opening} trial{trials}: {cells} × {fewest} seed{each}"
    lines = ["", f"{counted}; {_spell_time(opening_estimate(plan, estimate), opening)}"]
    if adaptive:
        total = len(plan.trials)
        lines.append(
            f"up to {total} trials, {seeds} seeds, where comparisons stay open "
            f"({UNTIL_WORDS[adaptive.until]}); {_spell_time(estimate, total)}"
        )
    lines += [f"  {source}" for source in estimate.sources[:8]]
    if len(estimate.sources) > 8:
        lines.append(f"  … and {len(estimate.sources) - 8} more")
    return [*lines, *(f"left out: {reason}" for reason in plan.study.left_out)]


UNTIL_WORDS = {
    "resolved": "until every two neighbours in the ranking differ or are equal",
    "winner": "until every contestant differs from the first or is equal to it",
}


def _spell_time(estimate: TimeEstimate, trials: int) -> str:
    if not estimate.unknown:
        return f"at most {spell_seconds(estimate.total_s)}, one after the other"
    if estimate.unknown == trials:
        return "time unknown"
    known = trials - estimate.unknown
    total = spell_seconds(estimate.total_s)
    return f"at most {total} for {known} of them, unknown for {estimate.unknown}"
