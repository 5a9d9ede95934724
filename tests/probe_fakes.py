"""A worker as the probe saw it, made up, and the figures of its outcome."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from rldyno.probe import Probe
from rldyno.probe.hardware import NO_GPU_USED, Hardware
from rldyno.probe.history import History
from rldyno.probe.metrics import METRICS
from rldyno.probe.rapl import RaplReader
from rldyno.probe.readings import TrialReadings, training_span
from rldyno.probe.summary import trial_figures
from rldyno.probe.track import EVER, Span, Track
from rldyno.probe.tree import CpuTimes, TaskUsage, TreeUsage
from rldyno_rig.result_file import WorkerResult


def watched_worker(**changes: Any) -> Any:
    """In place of a Probe that has ended."""
    fields = {
        "peak_threads": 5,
        "peak_rss_bytes": 0,
        "memory": History(),
        "tasks": TaskUsage(0, 50, 20),
        "tracks": {metric.name: Track() for metric in METRICS},
        "tree": SimpleNamespace(reasons={}),
        "why": lambda metric: "no reading",
    }
    return SimpleNamespace(**(fields | changes))


def figures_of(watched: Any, span: Span = EVER, cores: int = 1, **seen: Any) -> dict[str, Any]:
    hardware = Hardware(RaplReader(Path("/nowhere")), None, NO_GPU_USED)
    return trial_figures(TrialReadings(watched, hardware, span, cores, **seen))


def trained(start_ns: int, length_ns: int) -> Span:
    return training_span(WorkerResult("steps", train_start_ns=start_ns, train_ns=length_ns))


def energy_figures(hardware: Hardware, result: WorkerResult | None) -> dict[str, Any]:
    figures = trial_figures(TrialReadings(watched_worker(), hardware, EVER, 1, result=result))
    energy: dict[str, Any] = figures["energy"]
    return energy


class FakeTree:
    def __init__(self) -> None:
        self.rss = 0
        self.alive = True
        self.discovered = self.uss_read = 0

    def discover(self) -> None:
        self.discovered += 1

    def take(self) -> TreeUsage:
        if not self.alive:
            raise ProcessLookupError
        self.rss += 10
        return TreeUsage(self.rss, 1, self.rss, 1, 3)

    def usage(self, taken: TreeUsage) -> TreeUsage:
        return taken

    def tasks(self, now_ns: int) -> TaskUsage:
        return TaskUsage(wait_ns=5, threads_runnable=1.5)

    reasons: ClassVar[dict[str, str]] = {}

    def uss_bytes(self) -> int:
        self.uss_read += 1
        return 7

    def peak_rss_bytes(self) -> int:
        return 15

    def pids(self) -> list[int]:
        return [1]

    def close(self) -> None:
        pass


class FakeMachine:
    def __init__(self) -> None:
        self.busy = 0.0

    def cpu_times(self, cpus: tuple[int, ...] | None = None) -> CpuTimes:
        self.busy += 1.0
        return CpuTimes(self.busy, 4 * self.busy, 0.0)

    def memory_percent(self) -> float:
        return 50.0

    def oom_kills(self) -> int | None:
        return None


def sampled(monkeypatch: pytest.MonkeyPatch, seconds: list[float], tree: FakeTree, **options: Any):
    """A probe sampled at these times, and the rows it wrote."""
    output = io.StringIO()
    probe = Probe([1], 20, output, 0, tree=tree, machine=FakeMachine(), **options)
    for second in seconds:
        monkeypatch.setattr("rldyno.probe.probe.time.monotonic_ns", lambda s=second: round(s * 1e9))
        assert probe.sample()
    probe.write()
    return probe, list(csv.DictReader(io.StringIO(output.getvalue())))
