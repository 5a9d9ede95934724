"""outcome.json: how a trial ended and what was measured. Its presence means that the trial has ended.

Unknown keys, of newer versions, are ignored. Missing keys, of older versions, are None: not measured.
Only the standard library is imported here: the trial process makes outcomes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from rldyno.records.files import Json
from rldyno.records.status import ABSENT, DONE, FAILED
from rldyno_rig.result_file import WorkerResult
from rldyno_rig.schema import SCHEMA_VERSION

Section = Mapping[str, Any]
"""Name → value. The section's own `reasons` maps a name whose value is None to the reason."""

NO_RESULT = "the worker left no result"
NOT_RECORDED = "recorded before this value was measured"


@dataclass(frozen=True)
class Noise:
    """How much others disturbed the trial. Percentages are of the time of the worker's CPUs."""

    host: str | None = None
    """The machine that ran the trial, as a hash."""
    processor: str | None = None
    """Its model: machines with the same one are of one kind. None in older records."""
    gpu: str | None = None
    """The model of the trial's GPU, which makes a kind of its own. None for CPUs and in older records."""
    calibration_ns: int | None = None
    """Median time of a fixed computation right before the trial."""
    calibration_spread: float | None = None
    calibration_slowdown: float | None = None
    """Relative to the shortest calibration on this machine in the run; None for the first trial."""
    steal_percent: float | None = None
    foreign_cpu_percent: float | None = None
    frequency_mhz: float | None = None
    score: float | None = None
    """The share of its time that the trial may have lost to others."""
    reasons: Mapping[str, str] = field(default_factory=dict)

    @staticmethod
    def from_json(values: Section) -> Noise:
        return Noise(**{name: values[name] for name in _NOISE_FIELDS if name in values})

    def to_json(self) -> Json:
        return {**{name: getattr(self, name) for name in _NOISE_FIELDS}, "reasons": dict(self.reasons)}


_NOISE_FIELDS = tuple(entry.name for entry in fields(Noise))


@dataclass(frozen=True)
class Outcome:
    """The content of outcome.json."""

    trial: str = ""
    attempt: int = 1
    status: str = FAILED
    """`done` or `failed`."""
    reason: str = ""
    """One of DONE_REASONS or FAILED_REASONS of `rldyno_rig.schema`."""
    message: str = ""
    log_tail: str | None = None
    """The last lines of the worker's log; only of a failed trial."""
    exit_code: int | None = None
    signal: str | None = None
    started_at: str | None = None
    wall_s: float | None = None
    """From the start of the worker process to its end."""
    cpu_s: float | None = None
    peak_rss_bytes: int | None = None
    baseline_rss_bytes: int | None = None
    """Resident memory after the framework is imported."""
    sections: Mapping[str, Section | None] = field(default_factory=dict)
    """`memory`, `cpu`, `gpu`, `energy`, `machine` and those of added metrics; keys of their own in JSON."""
    affinity: Section | None = None
    """CPUs of the worker and of the probe."""
    probe: Section | None = None
    """What the probe itself cost."""
    noise: Noise | None = None
    reasons: Mapping[str, str] = field(default_factory=dict)
    """Why a value, or a whole section, is None."""
    warnings: tuple[str, ...] = ()
    result: WorkerResult | None = None
    files: Mapping[str, str] = field(default_factory=dict)
    """Name → hash of each file that the attempt left; empty in records from before they were kept."""

    @property
    def done(self) -> bool:
        return self.status == DONE

    @property
    def failed(self) -> bool:
        return self.status == FAILED

    @property
    def absent(self) -> bool:
        """Failed because the toolchain does not exist or does not start."""
        return self.reason == ABSENT

    @staticmethod
    def from_json(values: Section) -> Outcome:
        known = {name: values[name] for name in _PLAIN if name in values}
        known["sections"] = {
            name: value
            for name, value in values.items()
            if name not in _PLAIN and (value is None or isinstance(value, Mapping))
        }
        known["status"] = DONE if values.get("status") == DONE else FAILED
        noise, result = values.get("noise"), values.get("result")
        known["noise"] = Noise.from_json(noise) if noise else None
        known["result"] = WorkerResult.from_json(result) if result and "reason" in result else None
        known["reasons"] = values.get("reasons") or {}
        known["warnings"] = tuple(values.get("warnings") or ())
        known["files"] = values.get("files") or {}
        return Outcome(**known)

    def to_json(self) -> Json:
        written: Json = {"schema": SCHEMA_VERSION}
        written |= {name: getattr(self, name) for name in _PLAIN}
        return written | {
            **self.sections,
            "noise": self.noise.to_json() if self.noise else None,
            "reasons": dict(self.reasons),
            "warnings": list(self.warnings),
            "result": self.result.to_json() if self.result else None,
            "files": dict(self.files),
        }


_PLAIN = tuple(entry.name for entry in fields(Outcome) if entry.name != "sections")
