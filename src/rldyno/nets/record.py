"""nets.json as values: what was measured, with what, and what could not be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from rldyno.errors import Problem
from rldyno.nets.work import PAPER_ROWS, Benchmark
from rldyno.proofs.certificate import ABSENT, VALID
from rldyno.records import seal
from rldyno.records.directory import NETS_FILE
from rldyno.records.machine_facts import MachineFacts
from rldyno.records.machine_limits import DeviceLimits
from rldyno.records.typed import damaged, typed

Json = dict[str, Any]

NETS_SCHEMA = 1
PARTS = ("asked", "machine", "workers", "measurements")


class Kind(NamedTuple):
    """A kind of call, in which contestants are compared."""

    net: str
    measure: str
    """act, update or updates."""
    rows: int
    data: str
    """Where the data lies before the call."""

    @property
    def is_papers(self) -> bool:
        return self.net in ("small", "large") and self.rows == PAPER_ROWS.get(self.measure)


@dataclass(frozen=True)
class Round:
    """One contestant measured once."""

    round: int
    calls: int
    wall_ns: int
    p10_ns: float | None = None
    median_ns: float | None = None
    p90_ns: float | None = None
    """Percentiles of single calls; None in records that did not keep them."""
    gpu_percent: float | None = None

    @property
    def seconds(self) -> float:
        """Per call: the median, which interruptions of a few calls do not move; of old records the mean."""
        per_call = self.wall_ns / self.calls if self.median_ns is None else self.median_ns
        return per_call / 1e9

    def to_json(self) -> Json:
        return {
            "round": self.round,
            "calls": self.calls,
            "wall_ns": self.wall_ns,
            "median_ns": self.median_ns,
            "p10_ns": self.p10_ns,
            "p90_ns": self.p90_ns,
            "gpu_percent": self.gpu_percent,
        }

    @staticmethod
    def from_json(raw: Mapping[str, Any]) -> Round:
        return Round(
            round=raw["round"],
            calls=raw["calls"],
            wall_ns=raw["wall_ns"],
            p10_ns=raw.get("p10_ns"),
            median_ns=raw.get("median_ns"),
            p90_ns=raw.get("p90_ns"),
            gpu_percent=raw.get("gpu_percent"),
        )


@dataclass(frozen=True)
class Measurement:
    """All rounds of one contestant in one kind of call."""

    contestant: str
    kind: Kind
    rounds: tuple[Round, ...]
    error: str | None = None
    """Why the contestant cannot do this kind of call."""

    def to_json(self) -> Json:
        return {
            "contestant": self.contestant,
            **self.kind._asdict(),
            "rounds": [one.to_json() for one in self.rounds],
            "error": self.error,
        }

    @staticmethod
    def from_json(raw: Mapping[str, Any]) -> Measurement:
        return Measurement(
            contestant=raw["contestant"],
            kind=Kind(raw["net"], raw["measure"], raw["rows"], raw["data"]),
            rounds=tuple(Round.from_json(one) for one in raw["rounds"]),
            error=raw.get("error"),
        )


@dataclass(frozen=True)
class TimedWorker:
    """The process of one contestant for one network."""

    contestant: str
    net: str
    certificate: str
    """valid, failed or absent: whether this very code was proven on this device."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """Hashes of its code, its own facts, the parts of its start-up, how many started together."""

    def to_json(self) -> Json:
        return {
            "contestant": self.contestant,
            "net": self.net,
            "certificate": self.certificate,
            **self.details,
        }

    @staticmethod
    def from_json(raw: Mapping[str, Any]) -> TimedWorker:
        own = ("contestant", "net", "certificate")
        details = {name: value for name, value in raw.items() if name not in own}
        return TimedWorker(raw["contestant"], raw.get("net") or "", raw.get("certificate") or ABSENT, details)


@dataclass(frozen=True)
class LeftOut:
    contestant: str
    net: str | None
    """None: left out of all networks."""
    reason: str


@dataclass(frozen=True)
class Disturbance:
    """What others took of the measured CPUs in one round."""

    net: str
    round: int
    taken_percent: float | None


@dataclass(frozen=True)
class NetsRecord:
    benchmark: Benchmark
    machine: MachineFacts
    measurements: tuple[Measurement, ...] = ()
    workers: tuple[TimedWorker, ...] = ()
    absent: tuple[LeftOut, ...] = ()
    disturbed: tuple[Disturbance, ...] = ()
    """Empty in records of earlier versions, which did not measure it."""
    limits: DeviceLimits | None = None
    complete: bool = True
    gpu_percent_reason: str | None = None
    circumstances: Mapping[str, Any] = field(default_factory=dict)
    """Versions of rldyno, Python and toolchains, time, CPUs."""

    @property
    def unproven(self) -> list[str]:
        """Contestants that were timed without a valid certificate."""
        return sorted({worker.contestant for worker in self.workers if worker.certificate != VALID})

    def to_json(self) -> Json:
        return {
            "schema": NETS_SCHEMA,
            **self.circumstances,
            "complete": self.complete,
            "asked": self.benchmark.to_json(),
            "machine": self.machine.to_json(),
            "gpu_percent_reason": self.gpu_percent_reason,
            "limits": None if self.limits is None else self.limits.to_json(),
            "workers": [one.to_json() for one in self.workers],
            "absent": [vars(one) for one in self.absent],
            "disturbed": [vars(one) for one in self.disturbed],
            "measurements": [one.to_json() for one in self.measurements],
        }

    @staticmethod
    def from_json(raw: Mapping[str, Any]) -> NetsRecord:
        limits = raw.get("limits")
        return NetsRecord(
            benchmark=Benchmark.from_json(raw["asked"]),
            machine=MachineFacts.from_json(raw["machine"]),
            measurements=tuple(Measurement.from_json(one) for one in raw["measurements"]),
            workers=tuple(TimedWorker.from_json(one) for one in raw["workers"]),
            absent=tuple(LeftOut(**one) for one in raw.get("absent") or ()),
            disturbed=tuple(Disturbance(**one) for one in raw.get("disturbed") or ()),
            limits=None if limits is None else DeviceLimits.from_json(limits),
            complete=raw.get("complete", True),
            gpu_percent_reason=raw.get("gpu_percent_reason"),
            circumstances={name: value for name, value in raw.items() if name not in _OWN_KEYS},
        )


_OWN_KEYS = {
    "schema",
    "complete",
    "asked",
    "machine",
    "gpu_percent_reason",
    "limits",
    "workers",
    "absent",
    "disturbed",
    "measurements",
}


def read_record(directory: Path) -> NetsRecord | None:
    """None where networks were not timed."""
    path = directory / NETS_FILE
    if not path.exists() and not path.is_symlink():
        return None
    fix = f"delete it, or measure again: rldyno nets -o {directory}"
    try:
        raw = seal.read_record(path)
        missing = [name for name in PARTS if name not in raw]
        if missing:
            raise damaged(path, f"it has no {' and no '.join(missing)}")
        return typed(path, raw, NetsRecord.from_json)
    except Problem as problem:
        raise Problem(problem.message, fix=fix, code=1) from problem
