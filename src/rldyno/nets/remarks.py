"""What a reader must know beside the figures of a record, wherever they are shown."""

from __future__ import annotations

from typing import Any

from rldyno.limits.disturbance import is_busy, warnings
from rldyno.nets import tables
from rldyno.nets.utilisation import SHORTEST_S

Json = dict[str, Any]


def remarks(record: Json) -> list[str]:
    lines = [
        "To fastest: ratio of the same round and its 95 % bootstrap interval over rounds. "
        "To limit: multiple of the floor that arithmetic and bandwidth of this machine set.",
        *tables.errors(record),
    ]
    for absent in record["absent"]:
        on = f" on {absent['net']}" if absent["net"] else ""
        lines.append(f"Absent: {absent['contestant']}{on}: {absent['reason']}")
    unproven = sorted({w["contestant"] for w in record["workers"] if w["certificate"] != "valid"})
    if unproven:
        lines.append(f"Not proven here to compute the same: {', '.join(unproven)} (rldyno verify)")
    if record["gpu_percent_reason"] and record["asked"]["device"] != "cpu":
        lines.append(f"GPU utilisation was not measured: {record['gpu_percent_reason']}")
    elif record["asked"]["device"] != "cpu" and record["asked"]["seconds"] < SHORTEST_S:
        lines.append(f"GPU utilisation is a mean over a second: give --seconds {SHORTEST_S:g} or more.")
    lines += busy_rounds(record)
    lines += [
        f"{line}. When the machine is quiet, a new measurement measures them again"
        for line in warnings([record["limits"]] if record["limits"] else [])
    ]
    if not record["complete"]:
        lines.append("Interrupted: these are the rounds that were finished.")
    return lines


def busy_rounds(record: Json) -> list[str]:
    """Whether others worked on the CPUs that were measured. Older records do not tell."""
    rounds = record.get("disturbed") or []
    busy = [one["taken_percent"] for one in rounds if is_busy(one)]
    if not busy:
        return []
    return [
        f"The machine was busy in {len(busy)} of {len(rounds)} rounds: others used up to {max(busy):.0f} % "
        "of these CPUs. Times may be too long, ratios less so; measure again when it is quiet."
    ]
