"""Everything a trial's samples take from special hardware: its GPUs, and the energy of CPU and GPUs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from rldyno.probe.energy_metrics import CPU_ENERGY, ENERGY, GPU_ENERGY
from rldyno.probe.metric import Value
from rldyno.probe.rapl import STANDS_STILL, RaplReader
from rldyno.probe.track import Meter

if TYPE_CHECKING:
    from rldyno.probe.gpus import GpuReader

NO_GPU_USED = "the trial runs on the CPU"


class Reader(Protocol):
    """Reads some of the columns `gpu_*` and `*_energy_joules`."""

    reasons: dict[str, str]
    """Column → why it is not measured, or since when no longer."""

    def read(self, time_ns: int, pids: Sequence[int], slow: bool) -> dict[str, Value]:
        """Column → value, `time_ns` after the spawn, for these processes.

        Called once per sample; with `slow`, once a second, also for expensive and cumulative values.
        """
        ...

    def close(self) -> None: ...


class Hardware:
    """Opened right before the worker is spawned. All columns are of the whole trial, start-up included."""

    def __init__(self, cpu: Reader, gpu: GpuReader | None, no_gpu: str | None) -> None:
        self.cpu, self.gpu, self.no_gpu = cpu, gpu, no_gpu
        """`no_gpu`: why there is no reader of GPUs."""
        self.parts = [CPU_ENERGY] if no_gpu == NO_GPU_USED else [CPU_ENERGY, GPU_ENERGY]
        """What the energy of this trial is the sum of."""
        self.meters = {name: Meter() for name in (*self.parts, ENERGY)}
        self._readers: list[Reader] = [cpu] if gpu is None else [cpu, gpu]

    @property
    def idle(self) -> bool:
        """Nothing here can be read."""
        return self.gpu is None and CPU_ENERGY in self.cpu.reasons

    def read(self, time_ns: int, pids: Sequence[int], slow: bool) -> dict[str, Value]:
        row: dict[str, Value] = {}
        for reader in self._readers:
            row.update(reader.read(time_ns, pids, slow))
        if slow:
            row[ENERGY] = self._meter(time_ns, row)
        return row

    def finish(self, time_ns: int) -> None:
        """The worker has ended: the last reading of the energy, and of nothing else."""
        row = self.cpu.read(time_ns, [], slow=True)
        if self.gpu is not None:
            row[GPU_ENERGY] = self.gpu.last_joules(time_ns)
        self._meter(time_ns, row)

    def _meter(self, time_ns: int, row: Mapping[str, Value]) -> float | None:
        """Keep the energy of each part, and of all together if none is missing; return that."""
        known = {part: joules for part in self.parts if (joules := row.get(part)) is not None}
        for part, joules in known.items():
            self.meters[part].add(time_ns, joules)
        if len(known) < len(self.parts):
            return None
        total = sum(known.values())
        self.meters[ENERGY].add(time_ns, total)
        return total

    def reason(self, column: str) -> str | None:
        """Why a column of energy is empty."""
        if column == CPU_ENERGY:
            still = STANDS_STILL if self.meters[column].last == 0 else None
            return self.cpu.reasons.get(column) or still
        if column == GPU_ENERGY:
            return self.no_gpu or self._gpu_reason()
        missing = [why for part in self.parts if (why := self.reason(part))]
        return "; ".join(dict.fromkeys(missing)) or None

    def _gpu_reason(self) -> str | None:
        reasons = (watched.why_no_energy() for watched in (self.gpu.devices if self.gpu else ()))
        return next((reason for reason in reasons if reason), None)

    def close(self) -> None:
        for reader in self._readers:
            reader.close()


def open_hardware(device: str, workers: int, variables: Mapping[str, str]) -> Hardware:
    """For a trial on this device; `variables` are its worker's. A trial on the CPU never opens a GPU."""
    if device == "cpu":
        return Hardware(RaplReader(), None, NO_GPU_USED)
    from rldyno.probe.gpus import open_gpus

    gpu, reason = open_gpus(variables, max(1, workers))
    return Hardware(RaplReader(), gpu, reason)
