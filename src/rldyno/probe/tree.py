"""What every way of watching a process tree delivers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol


class TreeUsage(NamedTuple):
    """CPU time of a process tree since it began, ended children included, and what it holds now."""

    cpu_user_ns: int
    cpu_system_ns: int
    rss_bytes: int
    processes: int
    threads: int


class TaskUsage(NamedTuple):
    """What the tree's threads did. Totals are since it began; the others since the previous reading."""

    wait_ns: int | None = None
    """Time that threads could have run but had no CPU."""
    context_switches: int | None = None
    involuntary_switches: int | None = None
    """Those in which the kernel took the CPU away."""
    threads_busy: int | None = None
    """Threads that ran for at least BUSY_SHARE of the time."""
    threads_runnable: float | None = None
    """Mean number of threads that ran or waited for a CPU."""
    threads_competing: float | None = None
    """The same without what they waited for other processes, as far as that is certain."""


BUSY_SHARE = 0.01


class Tree(Protocol):
    @property
    def reasons(self) -> Mapping[str, str]:
        """Field of TaskUsage, or uss_bytes → why it cannot be read here."""

    def discover(self) -> None:
        """Find new children."""
        ...

    def take(self) -> Any:
        """A reading as raw as it comes, for `usage`; raises ProcessLookupError when nothing is left to read.

        The code of a sample is no longer in the CPU's caches when it runs, so that every line of it is
        expensive. The rest of the work is done once a second, for all samples together.
        """
        ...

    def usage(self, taken: Any) -> TreeUsage | None:
        """What `take` read, each reading once and in order; None if every process had ended by then."""
        ...

    def tasks(self, now_ns: int) -> TaskUsage:
        """The values of single threads; expensive."""
        ...

    def uss_bytes(self) -> int | None:
        """Memory that ending it would free; costly."""
        ...

    def peak_rss_bytes(self) -> int | None:
        """Highest resident set of one root process, by the kernel's own account, where it keeps one."""
        ...

    def pids(self) -> list[int]: ...

    def close(self) -> None: ...


class Carry:
    """Keeps a cumulative total from falling when a process takes its share with it.

    The time of a child that was waited for is added to its parent's. The time of other children is lost.
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
    """Taken by the hypervisor for other guests; None where the system does not count it."""


class Machine(Protocol):
    def cpu_times(self, cpus: tuple[int, ...] | None = None) -> CpuTimes: ...

    def memory_percent(self) -> float: ...

    def oom_kills(self) -> int | None:
        """Processes the kernel has killed for memory since boot."""
        ...
