"""Hardware counters of a process tree through Linux's perf_event_open, without the perf program."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys
from collections.abc import Sequence
from pathlib import Path

HARDWARE = {"instructions": 1, "cycles": 0, "cache_references": 2, "cache_misses": 3}
"""Name → PERF_COUNT_HW_* of linux/perf_event.h."""
_TYPE_HARDWARE, TYPE_SOFTWARE = 0, 1
_SYSCALL = {"x86_64": 298, "aarch64": 241, "riscv64": 241, "ppc64le": 319, "s390x": 331}
_ATTRIBUTES = struct.Struct("=IIQQQQQIIQ")
"""struct perf_event_attr, first version: type, size, config, period, sample type, read format, flags, …"""
_INHERIT, _NO_KERNEL, _NO_HYPERVISOR = 1 << 1, 1 << 5, 1 << 6
_TIMES = 1 | 2
"""Read format: how long the counter was enabled, and how long it really counted in the hardware."""
_CLOSE_ON_EXEC = 8

_PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")


class Counters:
    """Counts from now on, for processes that have one thread each yet, and for all threads and children to
    come.
    """

    def __init__(
        self, pids: Sequence[int], events: dict[str, int] | None = None, kind: int = _TYPE_HARDWARE
    ) -> None:
        self.reasons: dict[str, str] = {}
        self.kernel = True
        """Whether the kernel's work for the process is counted too, or only its own."""
        self._descriptors: dict[str, list[int]] = {}
        for name, config in (HARDWARE if events is None else events).items():
            opened = self._descriptors.setdefault(name, [])
            try:
                for pid in pids:
                    opened.append(self._open(pid, kind, config))
            except OSError as error:
                self.reasons[name] = why_not(error)
                for descriptor in self._descriptors.pop(name):
                    os.close(descriptor)

    def _open(self, pid: int, kind: int, config: int) -> int:
        if self.kernel:
            try:
                return _perf_event_open(pid, kind, config, _INHERIT)
            except OSError as error:
                if error.errno not in (errno.EACCES, errno.EPERM) or any(self._descriptors.values()):
                    raise
        descriptor = _perf_event_open(pid, kind, config, _INHERIT | _NO_KERNEL | _NO_HYPERVISOR)
        self.kernel = False
        return descriptor

    def read(self) -> dict[str, int | None]:
        """Totals so far; a counter that had to share the hardware is scaled to the whole time."""
        totals: dict[str, int | None] = dict.fromkeys(self.reasons)
        for name, descriptors in self._descriptors.items():
            read = [struct.unpack("=QQQ", os.read(descriptor, 24)) for descriptor in descriptors]
            value, wanted_ns, counted_ns = map(sum, zip(*read, strict=True))
            totals[name] = None
            if not counted_ns:
                self.reasons[name] = "other programs' counters left no room in the hardware"
            elif not value:  # a process that runs uses every one of them
                self.reasons[name] = (
                    "the hardware counter stayed at zero: a virtual machine only pretends to have it"
                )
            else:
                totals[name] = value if counted_ns == wanted_ns else round(value * wanted_ns / counted_ns)
        return totals

    def close(self) -> None:
        for descriptors in self._descriptors.values():
            for descriptor in descriptors:
                os.close(descriptor)
        self._descriptors.clear()


def _perf_event_open(pid: int, kind: int, config: int, flags: int) -> int:
    number = _SYSCALL.get(platform.machine())
    if sys.platform != "linux" or number is None:
        raise OSError(errno.ENOSYS, "no perf_event_open")
    attributes = _ATTRIBUTES.pack(kind, _ATTRIBUTES.size, config, 0, 0, _TIMES, flags, 0, 0, 0)
    library = ctypes.CDLL(None, use_errno=True)
    descriptor: int = library.syscall(
        ctypes.c_long(number), attributes, ctypes.c_int(pid), ctypes.c_int(-1), ctypes.c_int(-1),
        ctypes.c_ulong(_CLOSE_ON_EXEC),
    )  # fmt: skip
    if descriptor < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return descriptor


def why_not(error: OSError) -> str:
    """The reason, and what a person can do about it."""
    if error.errno in (errno.ENOENT, errno.ENODEV, errno.EOPNOTSUPP):
        return "no hardware counters here: the processor has none, or a virtual machine hides them"
    if error.errno in (errno.EACCES, errno.EPERM):
        level = _paranoid()
        if level is not None and level > 2:
            return (
                f"hardware counters are not allowed (kernel.perf_event_paranoid is {level}); "
                "to allow them: sudo sysctl kernel.perf_event_paranoid=2"
            )
        return (
            "hardware counters are not allowed: a container's seccomp filter blocks perf_event_open; "
            "with Docker, --cap-add PERFMON allows it"
        )
    if error.errno == errno.ENOSYS:
        return "hardware counters are read through perf_event_open, which only Linux has"
    return f"hardware counters cannot be opened: {error.strerror}"


def _paranoid() -> int | None:
    try:
        return int(_PARANOID.read_text())
    except (OSError, ValueError):
        return None
