"""What a machine is, as manifests and other records keep it. What could not be read is None, never zero."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from rldyno.records.files import Json


@dataclass(frozen=True)
class GpuFacts:
    index: int = 0
    name: str | None = None
    memory_total_bytes: int | None = None
    compute_capability: str | None = None
    power_limit_w: float | None = None
    sm_clock_max_mhz: int | None = None
    memory_clock_max_mhz: int | None = None
    driver: str | None = None
    cuda_driver: str | None = None
    reasons: Mapping[str, str] = field(default_factory=dict)
    """Field → why it is None."""

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> GpuFacts:
        return GpuFacts(**{name: values[name] for name in _GPU_FIELDS if name in values})


@dataclass(frozen=True)
class MachineFacts:
    """Everything that a reader of results needs to know about the machine."""

    host_sha256: str | None = None
    """Identifies a machine without naming it."""
    os: str | None = None
    kernel: str | None = None
    architecture: str | None = None
    python: str | None = None
    cpu: str | None = None
    cores_logical: int | None = None
    cores_physical: int | None = None
    cores_usable: int | None = None
    affinity: tuple[int, ...] | None = None
    """The CPUs that the lab may run on."""
    cgroup_cores: float | None = None
    """CPU quota of the container, in cores."""
    memory_total_bytes: int | None = None
    memory_available_bytes: int | None = None
    load: tuple[float, ...] | None = None
    """Mean number of runnable processes over 1, 5 and 15 minutes."""
    gpus: tuple[GpuFacts, ...] = ()
    gpus_reason: str | None = None
    """Why there are no GPUs."""
    cpu_energy_reason: str | None = None
    """Why the energy of CPUs cannot be read; None where it can."""
    counters_reason: str | None = None
    """Why hardware counters cannot be read; None where they can."""
    compilers: Mapping[str, str | None] = field(default_factory=dict)
    """Compiler → the first line of its `--version`; None where it is not on PATH."""
    virtualisation: str | None = None
    """A sign that others may share the hardware."""

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> MachineFacts:
        known = {name: values[name] for name in _FIELDS if values.get(name) is not None}
        for name in {"affinity", "load"} & known.keys():
            known[name] = tuple(known[name])
        known["gpus"] = tuple(map(GpuFacts.from_json, values.get("gpus") or ()))
        return MachineFacts(**known)

    def to_json(self) -> Json:
        written = {name: getattr(self, name) for name in _FIELDS}
        for name in ("affinity", "load"):
            written[name] = None if written[name] is None else list(written[name])
        return written | {"gpus": [asdict(gpu) for gpu in self.gpus], "compilers": dict(self.compilers)}


_FIELDS = tuple(entry.name for entry in fields(MachineFacts))
_GPU_FIELDS = tuple(entry.name for entry in fields(GpuFacts))
