"""What every way of watching a process tree delivers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol


class TreeUsage(NamedTuple):
    """CPU time of a process tree since it began, ended children included, and what it holds now."""

    cpu_user_ns: int
    cpu_system_ns: int
    rss_bytes: int
    processes: int
    threads: int


class Tree(Protocol):
    def discover(self) -> None:
        """Find new children."""
        ...

    def read(self) -> TreeUsage:
        """The cheap figures; raises ProcessLookupError when nothing of the tree is left."""
        ...

    def wait_ns(self) -> int | None:
        """Time its threads were runnable but not running."""
        ...

    def uss_bytes(self) -> int | None:
        """Memory that ending it would free; costly."""
        ...

    def peak_rss_bytes(self) -> int | None:
        """Highest resident set of the root process, by the kernel's own account, where it keeps one."""
        ...

    def pids(self) -> list[int]: ...

    def close(self) -> None: ...


class Carry:
    """Keeps a cumulative total from falling when a process takes its share with it.

    A waited-for child's time moves into its parent's account; one that nobody waits for just vanishes.
    """

    def __init__(self) -> None:
        self._lost = 0
        self._last = 0

    def __call__(self, total: int) -> int:
        if total < self._last:
            self._lost += self._last - total
        self._last = total
        return total + self._lost


@dataclass(frozen=True)
class CpuTimes:
    """Cumulative time of some of the machine's CPUs, in seconds."""

    busy_s: float
    total_s: float
    steal_s: float | None
    """Taken by the hypervisor for other guests; None where the system does not say."""


class Machine(Protocol):
    def cpu_times(self, cpus: tuple[int, ...] | None = None) -> CpuTimes: ...

    def memory_percent(self) -> float: ...

    def oom_kills(self) -> int | None:
        """Processes the kernel has killed for memory since boot."""
        ...
