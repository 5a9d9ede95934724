"""A batch system ends all processes of a job: that the worker dies first does not make it a failed trial."""

from __future__ import annotations

import signal
import time
from types import SimpleNamespace
from typing import Any

import pytest

from rldyno.processes.control import StopFlag
from rldyno.trial import runner
from rldyno.trial.outcome import Ending
from rldyno.trial.worker import StoppedError

KILLED = Ending.from_exit(-signal.SIGTERM)


class Clock:
    """After a second the signal reaches this process, too, if it does."""

    def __init__(self, stop: StopFlag, *, arrives: bool) -> None:
        self.stop, self.arrives, self.now = stop, arrives, 0.0
        self.monotonic_ns = time.monotonic_ns

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.stop.set = self.arrives and self.now > 1.0


def watched(ending: Ending, stop: StopFlag) -> Ending:
    crew: Any = SimpleNamespace(over=lambda: True, finish=lambda: ending, told_first=False)
    probe: Any = SimpleNamespace(sample=lambda: None, interval_ns=10**7)
    return runner._sample_until_end(crew, probe, stop)


def test_a_signal_that_reaches_the_worker_first(monkeypatch: pytest.MonkeyPatch) -> None:
    stop = StopFlag()
    monkeypatch.setattr(runner, "time", Clock(stop, arrives=True))
    with pytest.raises(StoppedError):
        watched(KILLED, stop)


@pytest.mark.parametrize("code", [-signal.SIGTERM, -signal.SIGKILL, 1])
def test_a_worker_that_died_while_this_process_was_told_to_stop(code: int) -> None:
    with pytest.raises(StoppedError):
        watched(Ending.from_exit(code), StopFlag(set=True))


def test_a_worker_that_somebody_ended_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    stop = StopFlag()
    clock = Clock(stop, arrives=False)
    monkeypatch.setattr(runner, "time", clock)
    assert watched(KILLED, stop) is KILLED
    assert clock.now == pytest.approx(2.0, abs=0.05)


def test_no_other_death_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    stop = StopFlag()
    clock = Clock(stop, arrives=True)
    monkeypatch.setattr(runner, "time", clock)
    assert watched(Ending.from_exit(-signal.SIGSEGV), stop).message == "killed by SIGSEGV"
    assert clock.now == 0.0


def test_a_worker_that_had_finished_counts() -> None:
    assert watched(Ending.from_exit(0), StopFlag(set=True)).reason == ""
