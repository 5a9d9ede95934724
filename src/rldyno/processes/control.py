"""What a process of the lab does with itself: its CPUs, its signals, its exit codes."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

from rldyno.errors import Problem

CANNOT_WRITE = 3
"""Exit code: the records could not be written (disk full). No other trial would fare better."""
INTERRUPTED = 130


def pin(cpus: tuple[int, ...] | None) -> None:
    if not cpus or not hasattr(os, "sched_setaffinity"):
        return
    try:
        os.sched_setaffinity(0, cpus)
    except OSError:
        raise Problem(
            f"this process may not use CPU {', '.join(map(str, cpus))}",
            fix="choose among the CPUs that `taskset -p $$` or your batch system shows",
        ) from None


@dataclass
class StopFlag:
    set: bool = False
    time_is_up: bool = False
    """The batch system is about to end this job: only what is written now is kept."""


@contextmanager
def stop_signals() -> Iterator[StopFlag]:
    """SIGINT, SIGTERM and SIGHUP set a flag instead of ending the process; SIGUSR1 says that time is up."""
    flag = StopFlag()

    def stop(signal_number: int, frame: FrameType | None) -> None:
        if signal_number == signal.SIGUSR1:
            flag.time_is_up = True
        else:
            flag.set = True

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)
    # One that is ignored stays ignored: that is what nohup asks for.
    previous = {n: signal.getsignal(n) for n in numbers if signal.getsignal(n) != signal.SIG_IGN}
    for number in previous:
        signal.signal(number, stop)
    try:
        yield flag
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
