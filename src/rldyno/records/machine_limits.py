"""What a machine can do at best, as values. None is not measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from rldyno_rig.job_files import EnvironmentCase

Json = dict[str, Any]

LIMITS_SCHEMA = 1
BUSY_PERCENT = 10.0
"""A trial that is disturbed by this much counts as noisy too."""


def is_busy(taken_percent: float | None) -> bool:
    """Whether others used so much of the measured CPUs that the result is too low."""
    return (taken_percent or 0.0) > BUSY_PERCENT


def quietest(*taken_percent: float | None) -> float | None:
    """Of several measurements whose best figures are kept: the least disturbed one decides."""
    return min((percent for percent in taken_percent if percent is not None), default=None)


@dataclass(frozen=True)
class DeviceLimits:
    """Of one device with so many CPU cores."""

    device: str
    cores: int
    flops_per_s: Mapping[str, float]
    """dtype → peak of a matrix product; a multiply-add counts two."""
    copy_bytes_per_s: float | None
    """Memory of the device, bytes read plus bytes written."""
    transfer_bytes_per_s: float | None
    """Page-locked host memory to the device; None on a CPU."""
    name: str | None = None
    """The processor or GPU."""
    by: str | None = None
    """The library that measured it, with its version."""
    reasons: Mapping[str, str] = field(default_factory=dict)
    """Field → why it is None."""
    taken_percent: float | None = None
    """Share of the measured CPUs' time that others used."""
    load: float | None = None
    """The machine's load average then."""
    host_sha256: str = ""
    made_at: str = ""

    @property
    def is_busy(self) -> bool:
        return is_busy(self.taken_percent)

    def best_with(self, other: DeviceLimits) -> DeviceLimits:
        """This measurement, with the figures of `other` that are higher."""
        dtypes = {**self.flops_per_s, **other.flops_per_s}
        return replace(
            self,
            flops_per_s={
                dtype: max(self.flops_per_s.get(dtype, 0.0), other.flops_per_s.get(dtype, 0.0))
                for dtype in dtypes
            },
            copy_bytes_per_s=_higher(self.copy_bytes_per_s, other.copy_bytes_per_s),
            transfer_bytes_per_s=_higher(self.transfer_bytes_per_s, other.transfer_bytes_per_s),
            taken_percent=quietest(self.taken_percent, other.taken_percent),
        )

    def to_json(self) -> Json:
        return {
            "schema": LIMITS_SCHEMA,
            "made_at": self.made_at,
            "host_sha256": self.host_sha256,
            "load": self.load,
            "device": self.device,
            "cores": self.cores,
            "taken_percent": self.taken_percent,
            "name": self.name,
            "by": self.by,
            "flops_per_s": dict(self.flops_per_s),
            "copy_bytes_per_s": self.copy_bytes_per_s,
            "transfer_bytes_per_s": self.transfer_bytes_per_s,
            "reasons": dict(self.reasons),
        }

    @staticmethod
    def from_json(raw: Mapping[str, Any]) -> DeviceLimits:
        rates = raw.get("flops_per_s") or {}
        return DeviceLimits(
            device=raw["device"],
            cores=raw["cores"],
            flops_per_s={dtype: rate for dtype, rate in rates.items() if rate},
            copy_bytes_per_s=raw.get("copy_bytes_per_s"),
            transfer_bytes_per_s=raw.get("transfer_bytes_per_s"),
            name=raw.get("name"),
            by=raw.get("by"),
            reasons=raw.get("reasons") or {},
            taken_percent=raw.get("taken_percent"),
            load=raw.get("load"),
            host_sha256=raw.get("host_sha256") or "",
            made_at=raw.get("made_at") or "",
        )


@dataclass(frozen=True)
class EnvironmentRate:
    """How fast environments are without an agent: no contestant can be faster."""

    case: EnvironmentCase
    steps_per_s: float | None
    taken_percent: float | None = None
    reason: str | None = None
    """Why it was not measured."""

    @property
    def is_busy(self) -> bool:
        return is_busy(self.taken_percent)

    def best_with(self, other: EnvironmentRate) -> EnvironmentRate:
        return EnvironmentRate(
            self.case,
            _higher(self.steps_per_s, other.steps_per_s),
            quietest(self.taken_percent, other.taken_percent),
        )

    def to_json(self) -> Json:
        why = {} if self.reason is None else {"reason": self.reason}
        return {
            **self.case.to_json(),
            "steps_per_s": self.steps_per_s,
            "taken_percent": self.taken_percent,
            **why,
        }

    @staticmethod
    def from_json(raw: Mapping[str, Any]) -> EnvironmentRate:
        return EnvironmentRate(
            EnvironmentCase.from_json(raw), raw["steps_per_s"], raw.get("taken_percent"), raw.get("reason")
        )


@dataclass(frozen=True)
class StudyLimits:
    """What a manifest keeps: the limits that the trials of a study are compared with."""

    devices: tuple[DeviceLimits, ...] = ()
    environments: tuple[EnvironmentRate, ...] = ()

    @property
    def is_busy(self) -> bool:
        return any(one.is_busy for one in self.devices) or any(one.is_busy for one in self.environments)

    def to_json(self) -> Json:
        return {
            "devices": [one.to_json() for one in self.devices],
            "environments": [one.to_json() for one in self.environments],
        }

    @staticmethod
    def from_json(raw: Mapping[str, Any] | None) -> StudyLimits:
        """Empty where a manifest has none."""
        found = raw or {}
        return StudyLimits(
            tuple(DeviceLimits.from_json(one) for one in found.get("devices") or ()),
            tuple(EnvironmentRate.from_json(one) for one in found.get("environments") or ()),
        )


def _higher(*values: float | None) -> float | None:
    return max((value for value in values if value is not None), default=None)
