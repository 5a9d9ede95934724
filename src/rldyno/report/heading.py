"""The head of the page: the question, and under what conditions it was answered."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rldyno.answers.groups import Group
from rldyno.records.machine_facts import MachineFacts
from rldyno.results.load import Results, study_values


@dataclass(frozen=True)
class Heading:
    title: str
    question: str
    facts: tuple[str, ...]
    """Machine, seeds, budget, date and version: what a number needs beside it."""


def heading_of(results: Results, groups: Sequence[Group]) -> Heading:
    study, manifest = study_values(results.study), results.manifest
    question = study.get("question")
    facts = (
        machine_words(manifest.machine, set(results.trials["cores"].drop_nulls())),
        seeds_words(groups),
        budget_words(study.get("budget")),
        f"{len(results.ended)} of {len(results.trials)} trials",
        date_words(manifest.started_at),
        f"rldyno {manifest.rldyno}" if manifest.rldyno else "",
    )
    return Heading(
        title=results.title,
        question=question if isinstance(question, str) else "",
        facts=tuple(filter(None, facts)),
    )


def machine_words(machine: MachineFacts, used: set[int]) -> str:
    """`Xeon @ 2.80GHz, 1 of 2 cores, H200`."""
    cores = machine.cores_usable
    taken = f"{min(used)} of " if len(used) == 1 and cores is not None and min(used) < cores else ""
    words = f"{taken}{cores} core{'' if cores == 1 else 's'}" if cores is not None else ""
    gpus = dict.fromkeys(gpu.name for gpu in machine.gpus if gpu.name)
    return ", ".join(filter(None, [machine.cpu, words, *gpus]))


def seeds_words(groups: Sequence[Group]) -> str:
    """How many seeds contestants have."""
    counts = {row.done for group in groups for row in group.rows if row.done}
    if not counts:
        return ""
    fewest, most = min(counts), max(counts)
    return f"{most} seed{'' if most == 1 else 's'}" if fewest == most else f"{fewest} to {most} seeds"


def budget_words(budget: Any) -> str:
    """`at most 60,000 steps, until a mean return of 400 over 20 episodes`."""
    if not isinstance(budget, Mapping):
        return ""
    units = {"steps": "steps", "episodes": "episodes", "wall_s": "s"}
    limits = [f"{budget[name]:,} {unit}" for name, unit in units.items() if is_number(budget.get(name))]
    words = [f"at most {' or '.join(limits)}"] if limits else []
    stop = budget.get("stop")
    if isinstance(stop, Mapping) and is_number(stop.get("return")):
        words.append(f"until a mean return of {stop['return']:g} over {stop.get('episodes', 100)} episodes")
    return ", ".join(words)


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def date_words(started_at: str) -> str:
    """`16 November 2026`."""
    try:
        day = dt.datetime.fromisoformat(started_at)
    except ValueError:
        return ""
    return f"{day.day} {day:%B %Y}"
