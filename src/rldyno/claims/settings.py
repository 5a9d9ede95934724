"""Settings: the columns in which two sides of a comparison agree, and the words for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rldyno.answers.axes import TEAM_AXES, with_one_worker
from rldyno.claims.evidence import Evidence, RunGroup, setting_words
from rldyno.claims.form import HYPER


def freed_columns(named: set[str]) -> set[str]:
    """Columns in which A and B may differ, given those the claim names; hyper-parameters follow the task."""
    freed = set(named)
    if freed & {"contestant", "framework"}:
        freed |= {"framework", "mode"}
    if "execution" in freed:
        freed |= {"mode"}
    if "workers" in freed:
        freed |= set(TEAM_AXES)
    if "system" in freed:
        freed |= {"machine"}
    if freed & {"environment", "game"}:
        freed |= {"environment", "suite", "game"}
    if freed & {"algorithm", "environment"}:
        freed |= {HYPER}
    return freed


def by_setting(found: Sequence[RunGroup], kept: Sequence[str]) -> dict[tuple[object, ...], list[RunGroup]]:
    settings: dict[tuple[object, ...], list[RunGroup]] = {}
    for cell in found:
        settings.setdefault(tuple(cell.keys[name] for name in kept), []).append(cell)
    return settings


def along(axis: str, found: Sequence[RunGroup]) -> list[RunGroup]:
    """The cells of a line along the axis: one worker belongs to every collective and scaling."""
    if axis != "workers":
        return list(found)
    return [replace(cell, keys=keys) for keys, cell in with_one_worker([(cell.keys, cell) for cell in found])]


def varying(evidence: Evidence, found: Sequence[RunGroup], *but: str) -> list[str]:
    """Columns in which the settings differ, contestants excepted."""
    named = {"framework", "mode", "hardware", "suite", "game", *but}
    return [
        name
        for name in evidence.axes
        if name not in named and len({cell.keys.get(name) for cell in found}) > 1
    ]


def pair_label(a: RunGroup, b: RunGroup, freed: set[str], shown: Sequence[str]) -> str:
    """`jax:jit / torch:eager (2 cores)`: the sides by what they differ in, the setting in brackets."""
    shown_first = ("algorithm", "environment", "device", "cores", "workers", "collective", "system")
    names: list[str] = [name for name in shown_first if name in freed]
    names += sorted(name for name in freed if name.startswith(HYPER) and name != HYPER)
    sides = [" ".join([cell.contestant, *(str(cell.keys.get(name)) for name in names)]) for cell in (a, b)]
    where = setting_words(
        a.keys, [name for name in shown if not name.startswith(HYPER) or HYPER not in freed]
    )
    return " / ".join(sides) + (f" ({where})" if where else "")
