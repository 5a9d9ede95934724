"""Whether something was measured on a busy machine.

A limit that was is too low, and multiples of it look too good; times that were are too long.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from rldyno.probe.tree import CpuTimes

Json = dict[str, Any]

BUSY_PERCENT = 10.0
"""As a trial that is disturbed by this much counts as noisy."""


class Watch:
    """`with Watch(cpus) as watch: …`, then `watch.taken_percent`.

    `own_cpu_s`: seconds of CPU that what is measured has used so far.
    """

    def __init__(self, cpus: Sequence[int] | None, own_cpu_s: Callable[[], float] | None = None) -> None:
        self._cpus = None if cpus is None else tuple(cpus)
        self._own_cpu_s = own_cpu_s or cpu_s_with_children
        self.taken_percent: float | None = None
        """Share of the time of these CPUs that others used or a hypervisor took; None if not told here."""

    def __enter__(self) -> Watch:
        self._before = self._read()
        return self

    def __exit__(self, *exception: object) -> None:
        from rldyno.machine.noise import taken_by_others

        (before, own_before), (after, own_after) = self._before, self._read()
        foreign, steal = taken_by_others((before, after), own_after - own_before)
        self.taken_percent = None if foreign is None else foreign + (steal or 0.0)

    def _read(self) -> tuple[CpuTimes, float]:
        from rldyno.probe.probe import open_machine

        return open_machine().cpu_times(self._cpus), self._own_cpu_s()


def cpu_s_with_children() -> float:
    """Of this process and the children it waited for."""
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system


def quietest(*limits: Json) -> float | None:
    """Of several measurements, whose best figures are kept, the least disturbed vouches for them."""
    known = [one["taken_percent"] for one in limits if one.get("taken_percent") is not None]
    return min(known, default=None)


def is_busy(limit: Json) -> bool:
    return (limit.get("taken_percent") or 0.0) > BUSY_PERCENT


def any_is_busy(limits: Json | None) -> bool:
    """`limits` as a manifest keeps them."""
    found = limits or {}
    return any(map(is_busy, [*(found.get("devices") or ()), *(found.get("environments") or ())]))


def warnings(devices: Iterable[Json], environments: Iterable[Json] = ()) -> list[str]:
    """One line for each limit that was measured on a busy machine."""
    lines = []
    for one in filter(is_busy, devices):
        what = f"limits of {one['device']} with {one['cores']} core{'s' if one['cores'] != 1 else ''}"
        lines.append(_line(what, "multiples of the floor too small", one))
    for one in filter(is_busy, environments):
        count = f"{one['environments']} × " if one["environments"] > 1 else ""
        what = f"{count}{one['environment']} without an agent"
        lines.append(_line(what, "shares of its speed too large", one))
    return lines


def _line(what: str, so: str, one: Json) -> str:
    return (
        f"{what}: measured while others used {one['taken_percent']:.0f} % of these CPUs; "
        f"may be too low, and {so}"
    )
