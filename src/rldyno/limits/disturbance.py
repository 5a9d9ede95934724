"""Whether something was measured on a busy machine.

A limit that was is too low, and multiples of it look too good; times that were are too long.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from rldyno.probe.tree import CpuTimes
    from rldyno.records.machine_limits import DeviceLimits, EnvironmentRate


class Watch:
    """`with Watch(cpus) as watch: …`, then `watch.taken_percent`.

    `own_cpu_s`: seconds of CPU that what is measured has used so far.
    """

    def __init__(self, cpus: Sequence[int] | None, own_cpu_s: Callable[[], float] | None = None) -> None:
        self._cpus = None if cpus is None else tuple(cpus)
        self._own_cpu_s = own_cpu_s or cpu_s_with_children
        self.taken_percent: float | None = None
        """Share of these CPUs' time that others used or a hypervisor took; None if it is not counted here."""

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


def warnings(devices: Iterable[DeviceLimits], environments: Iterable[EnvironmentRate] = ()) -> list[str]:
    """One line for each limit that was measured on a busy machine."""
    lines = []
    for one in devices:
        if one.is_busy:
            what = f"limits of {one.device} with {one.cores} core{'s' if one.cores != 1 else ''}"
            lines.append(_line(what, "multiples of the floor too small", one.taken_percent))
    for rate in environments:
        if rate.is_busy:
            count = f"{rate.case.environments} × " if rate.case.environments > 1 else ""
            what = f"{count}{rate.case.environment} without an agent"
            lines.append(_line(what, "shares of its speed too large", rate.taken_percent))
    return lines


def _line(what: str, consequence: str, taken_percent: float | None) -> str:
    return (
        f"{what}: measured while others used {taken_percent or 0.0:.0f} % of these CPUs; "
        f"may be too low, and {consequence}"
    )
