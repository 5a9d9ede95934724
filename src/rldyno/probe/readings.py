"""Everything that was read of a trial, for the figures of its outcome."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from rldyno.probe.memory import memory_figures, peak_rss_bytes
from rldyno.probe.metric import Answer
from rldyno.probe.track import Span

if TYPE_CHECKING:
    import resource

    from rldyno.probe.hardware import Hardware
    from rldyno.probe.probe import Probe
    from rldyno.probe.track import Track
    from rldyno_rig.result_file import WorkerResult


class Counted(NamedTuple):
    """What the hardware counters of the worker's process tree showed."""

    totals: Mapping[str, int | None] = {}
    reasons: Mapping[str, str] = {}
    kernel: bool = True


class Idle(NamedTuple):
    """The machine without a trial: liu2022's usage error, in which the machine-wide figures are wrong."""

    cpu_percent: float | None
    cpu_reason: str | None
    memory_percent: float


@dataclass(eq=False)
class TrialReadings:
    """What the probe, the kernel and the counters saw of a worker. Implements `Readings`."""

    probe: Probe
    hardware: Hardware
    span: Span
    cores: int
    """Granted to the worker."""
    usage: resource.struct_rusage | None = None
    counted: Counted = field(default_factory=Counted)
    idle: Idle | None = None
    result: WorkerResult | None = None

    @functools.cached_property
    def memory(self) -> dict[str, Answer]:
        """What memory the worker held when."""
        peak = peak_rss_bytes(self.probe.peak_rss_bytes, self.usage)
        return memory_figures(self.probe.memory, self.result, peak, self.probe.tree.reasons.get("uss_bytes"))

    def track(self, metric: str) -> Track:
        return self.probe.tracks[metric]

    def why(self, metric: str) -> str:
        return self.probe.why(metric)


def training_span(result: WorkerResult | None) -> Span:
    """Start-up and the worker's end are left out of means; all counts where no training ended."""
    if result is None or result.train_start_ns is None:
        return Span()
    return Span(result.train_start_ns, result.train_start_ns + result.train_ns)
