"""What a reader must know beside the figures of a record, wherever they are shown."""

from __future__ import annotations

from rldyno.limits.disturbance import warnings
from rldyno.nets import tables
from rldyno.nets.record import NetsRecord
from rldyno.nets.utilisation import SHORTEST_S
from rldyno.records.machine_limits import is_busy


def remarks(record: NetsRecord) -> list[str]:
    benchmark = record.benchmark
    lines = [
        "To fastest: ratio within the same round, and its 95 % interval over rounds (range: below 6). "
        "To limit: multiple of the floor that arithmetic and bandwidth of this machine set.",
        *tables.errors(record),
    ]
    for absent in record.absent:
        on = f" on {absent.net}" if absent.net else ""
        lines.append(f"Absent: {absent.contestant}{on}: {absent.reason}")
    if record.unproven:
        lines.append(f"Not proven here to compute the same: {', '.join(record.unproven)} (rldyno verify)")
    if record.gpu_percent_reason and benchmark.device != "cpu":
        lines.append(f"GPU utilisation was not measured: {record.gpu_percent_reason}")
    elif benchmark.device != "cpu" and benchmark.seconds < SHORTEST_S:
        lines.append(f"GPU utilisation is a mean over a second: give --seconds {SHORTEST_S:g} or more.")
    lines += busy_rounds(record)
    lines += [
        f"{line}. Run it on a quiet machine to measure them again"
        for line in warnings([record.limits] if record.limits else [])
    ]
    if not record.complete:
        lines.append("Interrupted: these are the rounds that were finished.")
    return lines


def busy_rounds(record: NetsRecord) -> list[str]:
    """Whether others used the CPUs that were measured."""
    busy = [one.taken_percent or 0.0 for one in record.disturbed if is_busy(one.taken_percent)]
    if not busy:
        return []
    return [
        f"The machine was busy in {len(busy)} of {len(record.disturbed)} rounds: others used up to "
        f"{max(busy):.0f} % of these CPUs. Times may be too long; ratios are affected less. "
        "Measure again on a quiet machine."
    ]
