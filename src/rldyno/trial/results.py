"""What the workers of a trial say at their end: the results of all ranks, and those as one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rldyno.errors import Problem
from rldyno.records.files import read_json
from rldyno_rig import schema
from rldyno_rig.result_file import ANOTHER, WorkerResult
from rldyno_rig.team.names import home

_REQUIRED = {"reason": str, "steps": int, "train_ns": int, "startup_ns": dict, "phases_ns": dict}
_LONGEST = 200


@dataclass(frozen=True)
class RankResult:
    result: WorkerResult | None
    flaw: str = ""
    """Why there is none."""
    said: str = ""
    """Why it crashed, in its own words."""


def read_results(trial_dir: Path, workers: int) -> list[RankResult]:
    return [read_result(home(trial_dir, rank) / schema.RESULT_FILE) for rank in range(workers)]


def read_result(path: Path) -> RankResult:
    if not path.exists():
        return RankResult(None, "ended without a result")
    try:
        values = read_json(path)
    except Problem:
        return RankResult(None, f"ended without a result: {path.name} is damaged")
    said = str(values.get("message") or "")[:_LONGEST] if values.get("reason") == "crashed" else ""
    for name, kind in _REQUIRED.items():
        if not isinstance(values.get(name), kind):
            return RankResult(None, f"ended without a usable result: {path.name} has no valid `{name}`", said)
    if values["reason"] not in schema.DONE_REASONS and values["reason"] not in schema.FAILED_REASONS:
        return RankResult(None, f"ended without a usable result: unknown reason `{values['reason'][:40]}`")
    return RankResult(WorkerResult.from_json(values), said=said)


def decisive(results: Sequence[RankResult]) -> int:
    """The rank whose result says how a team ended that no failure of a process ended."""
    lacking = [rank for rank, one in enumerate(results) if one.result is None]
    own = [
        rank
        for rank, one in enumerate(results)
        if one.result and one.result.reason == "nan" and one.result.message != ANOTHER
    ]
    return (lacking or own or [0])[0]


def as_one(results: Sequence[RankResult]) -> WorkerResult | None:
    """The first worker's result with the memory of all together, as the probe sees it."""
    first = results[0].result
    if first is None or len(results) == 1:
        return first
    every = [one.result for one in results]
    return replace(
        first,
        memory=_sum([None if one is None else one.memory for one in every]),
        device_memory=_sum([None if one is None else one.device_memory for one in every]),
    )


def _sum(sections: Sequence[Mapping[str, Any] | None]) -> dict[str, Any] | None:
    """Bytes and rows of all; None where one does not know its own."""
    known = [section for section in sections if section]
    if len(known) < len(sections):
        return None
    return {
        name: sum(values) if None not in (values := [section.get(name) for section in known]) else None
        for name, value in known[0].items()
        if value is None or isinstance(value, (int, float))
    }
