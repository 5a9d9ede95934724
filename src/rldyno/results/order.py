"""Trials in the order in which the study lists its values; they ran in a random one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rldyno_rig.trial_file import TrialFile

# Axis of a trial → key of the study, the slowest first.
AXES = {
    "algorithm": "algorithms",
    "environment": "environments",
    "max_episode_steps": "max_episode_steps",
    "device": "devices",
    "cores": "cores",
    "workers": "workers",
    "collective": "collective",
    "scaling": "scaling",
}


def in_study_order(trials: Mapping[str, TrialFile], study: Mapping[str, Any]) -> list[str]:
    """By task and setting, then contestant, then as they were: by block. Values that it lacks come last."""
    places = {axis: _places(study.get(key)) for axis, key in AXES.items()}
    contestants = _places(study.get("contestants"))
    hyper = {name: _places(values) for name, values in _lists(study.get("hyper"))}

    def place(trial: str) -> list[int]:
        file = trials[trial]
        return [
            *(_place(places[axis], getattr(file, axis)) for axis in AXES),
            *(_place(values, file.hyper.get(name)) for name, values in hyper.items()),
            _place(contestants, str(file.contestant)),
        ]

    return sorted(trials, key=place)


def _lists(hyper: Any) -> Iterator[tuple[str, list[Any]]]:
    """Hyper-parameters with several values, in whatever table of `[hyper]` they stand."""
    for name, value in hyper.items() if isinstance(hyper, dict) else ():
        if isinstance(value, dict):
            yield from _lists(value)
        elif isinstance(value, list):
            yield name, value


def _places(values: Any) -> dict[str, int]:
    listed = values if isinstance(values, list) else [values]
    return {repr(value): index for index, value in enumerate(listed)}


def _place(places: Mapping[str, int], value: Any) -> int:
    return places.get(repr(value), len(places))
