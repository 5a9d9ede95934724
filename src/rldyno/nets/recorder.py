"""Collects what a benchmark of networks finds, and writes nets.json."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import rldyno
from rldyno.machine.facts import machine_facts
from rldyno.nets.record import Disturbance, Kind, LeftOut, Measurement, NetsRecord, Round, TimedWorker
from rldyno.nets.work import Benchmark
from rldyno.records import files as records
from rldyno.records.machine_limits import DeviceLimits
from rldyno.records.provenance import git_revision
from rldyno.records.seal import write_record
from rldyno.toolchains.resolve import Interpreter

PrintLine = Callable[[str], None]


class NetsRecorder:
    def __init__(
        self,
        benchmark: Benchmark,
        path: Path,
        cpus: Sequence[int] | None,
        gpu_percent_reason: str | None,
        print_line: PrintLine,
    ) -> None:
        self.path = path
        self.print_line = print_line
        self.complete = False
        self.limits: DeviceLimits | None = None
        self._benchmark = benchmark
        self._gpu_percent_reason = gpu_percent_reason
        self._machine = machine_facts()
        self._circumstances: dict[str, Any] = {
            "rldyno": rldyno.__version__,
            "git_revision": git_revision(),
            "made_at": records.now_iso(),
            "cpus": None if cpus is None else list(cpus),
            "python": platform.python_version(),
            "toolchains": {},
        }
        self._workers: list[TimedWorker] = []
        self._absent: list[LeftOut] = []
        self._disturbed: list[Disturbance] = []
        self._rounds: dict[tuple[str, Kind], list[Round]] = {}
        self._errors: dict[tuple[str, Kind], str] = {}

    def set_toolchains(self, interpreters: Mapping[str, Interpreter]) -> None:
        self._circumstances["toolchains"] = {
            framework: {"python": interpreter.python, "versions": interpreter.versions}
            for framework, interpreter in interpreters.items()
        }

    def add_worker(self, worker: TimedWorker) -> None:
        self._workers.append(worker)

    def leave_out(self, contestant: str, net: str | None, reason: str) -> None:
        """One line; the others go on. `net` None: left out of all."""
        self._absent.append(LeftOut(contestant, net, reason))
        self.print_line(f"left out: {contestant}{f' on {net}' if net else ''}: {reason}")

    def add_round(self, contestant: str, kind: Kind, measured: Round) -> None:
        self._rounds.setdefault((contestant, kind), []).append(measured)

    def add_error(self, contestant: str, kind: Kind, reason: str) -> None:
        """The contestant cannot do this kind of call, and is not measured in it again."""
        self._rounds.setdefault((contestant, kind), [])
        self._errors[contestant, kind] = reason

    def has_error(self, contestant: str, kind: Kind) -> bool:
        return (contestant, kind) in self._errors

    def add_disturbance(self, net: str, number: int, taken_percent: float | None) -> None:
        self._disturbed.append(Disturbance(net, number, taken_percent))

    @property
    def is_empty(self) -> bool:
        return not self._rounds

    def record(self) -> NetsRecord:
        return NetsRecord(
            benchmark=self._benchmark,
            machine=self._machine,
            measurements=tuple(
                Measurement(contestant, kind, tuple(rounds), self._errors.get((contestant, kind)))
                for (contestant, kind), rounds in self._rounds.items()
            ),
            workers=tuple(self._workers),
            absent=tuple(self._absent),
            disturbed=tuple(self._disturbed),
            limits=self.limits,
            complete=self.complete,
            gpu_percent_reason=self._gpu_percent_reason,
            circumstances=self._circumstances,
        )

    def write(self) -> None:
        write_record(self.path, self.record().to_json())
