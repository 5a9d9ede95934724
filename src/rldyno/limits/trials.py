"""A trial held against the limits of the machine it ran on, as its manifest keeps them."""

from __future__ import annotations

from typing import Any

from rldyno.limits.floor import Floor, Limits, floor
from rldyno_rig import batches, hyper
from rldyno_rig.spec import complete

Json = dict[str, Any]


def limit_figures(asked: Json, facts: Json | None, row: Json, limits: Json | None) -> Json:
    """Columns of the results table; None where the machine's limits or the trial's network are not known."""
    spent = [row.get(f"phase_{phase}_s") for phase in ("update", "transfer", "read")]
    updates = row.get("updates")
    update_us = None
    if updates and None not in spent:
        update_us = 1e6 * sum(seconds for seconds in spent if seconds is not None) / updates
    found = None if facts is None or not limits else update_floor(asked, facts, limits)
    floor_us = None if found is None else found.seconds * 1e6
    return {
        "update_us": update_us,
        "update_floor_us": floor_us,
        "update_floor_bound": None if found is None else found.bound,
        "update_over_floor": None if update_us is None or floor_us is None else update_us / floor_us,
        "environment_alone_steps_per_s": environment_rate(asked, limits),
    }


def update_floor(asked: Json, facts: Json, limits: Json) -> Floor | None:
    """Of one update of this trial: host arrays in, weights changed."""
    of_device = [
        Limits.from_json(one)
        for one in limits.get("devices") or ()
        if (one["device"], one["cores"]) == (asked.get("device"), asked.get("cores"))
    ]
    shape, actions = facts.get("observation_shape"), facts.get("actions")
    if not of_device or not shape or not actions:
        return None
    try:
        values = hyper.from_json(asked["algorithm"], asked["hyper"])
        spec = complete(
            asked["algorithm"], values, tuple(shape), "uint8" if len(shape) == 3 else "float32", actions
        )
    except (KeyError, TypeError, ValueError):  # of an algorithm that had other fields then
        return None
    return floor(spec, batches.size(spec), of_device[0], asked.get("dtype", "float32"))


def environment_rate(asked: Json, limits: Json | None) -> float | None:
    """Steps per second of the trial's environments without an agent: no contestant can be faster."""
    key = (
        asked.get("environment"),
        (asked.get("hyper") or {}).get("environments"),
        asked.get("max_episode_steps"),
    )
    for one in (limits or {}).get("environments") or ():
        if (one["environment"], one["environments"], one["max_episode_steps"]) == key:
            rate: float | None = one["steps_per_s"]
            return rate
    return None
