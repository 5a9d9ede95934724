"""Why a trial has no figure in a column of the trials table."""

from __future__ import annotations

from collections.abc import Iterable

from rldyno.records.files import Json
from rldyno.results.measured_columns import BLOCKS, find_block

NO_RESULT = "the worker left no result"
NO_THRESHOLD = "the study has no threshold"
NOT_REACHED = "the threshold was not reached"
NOT_KEPT = "recorded before this figure was measured"

_NO_FIGURES = frozenset(
    {"max_episode_steps", "stop_return", "stop_episodes"}
    | {"message", "warnings", "certificate", "certificate_detail", "log_tail"}
)
"""Columns in which empty has a meaning of its own."""
_PART_OF = {
    "cpu_percent": "cpu_s",
    "noise_score": "noise",
    "calibration_ns": "noise",
    "probe_core_percent": "probe",
}
"""Column → the field of outcome.json that it comes from, where that has another name."""
_EVENTS = {
    "final_return": "no episode ended",
    "learning_start_s": "no update was made",
    "learning_start_steps": "no update was made",
}


def missing_reasons(outcome: Json, row: Json, columns: Iterable[str]) -> dict[str, str]:
    """Column → why it is empty, for every one of these that holds a figure and does not."""
    found = _by_block(outcome)
    for name in columns:
        if row.get(name) is None and name not in found and name not in _NO_FIGURES:
            found[name] = _why(name, outcome, row)
    return found


def _by_block(outcome: Json) -> dict[str, str]:
    own: dict[str, str] = outcome.get("reasons") or {}
    found: dict[str, str] = {}
    for path, columns in BLOCKS.items():
        block = find_block(outcome, path)
        reasons: dict[str, str] = block.get("reasons") or {}
        whole = own.get(path[0]) if path else None
        if path[:1] == ("result",) and outcome.get("result") is None:
            whole = whole or NO_RESULT
        for name, field in columns:
            if block.get(field) is None:
                found[name] = reasons.get(field) or whole or NOT_KEPT
    return found


def _why(name: str, outcome: Json, row: Json) -> str:
    own: dict[str, str] = outcome.get("reasons") or {}
    said = own.get(_PART_OF.get(name, name))
    if said:
        return said
    about_threshold = name.startswith("threshold_")
    if about_threshold and row.get("stop_return") is None:
        return NO_THRESHOLD
    if outcome.get("result") is None:
        return own.get("result") or NO_RESULT
    if about_threshold and row.get("threshold_reached") is False:
        return NOT_REACHED
    return _EVENTS.get(name, NOT_KEPT)
