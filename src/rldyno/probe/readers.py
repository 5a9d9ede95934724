"""Figures that need special hardware: GPU utilisation and memory, energy counters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

Value = int | float | None


class Reader(Protocol):
    """Fills some of the columns `gpu_percent`, `gpu_memory_bytes`, `gpu_power_w`, `energy_joules`."""

    reason: str | None
    """Why it cannot measure; None when it can."""

    def read(self, pids: Sequence[int]) -> dict[str, Value]:
        """Column → value for these processes; called once per sample, so it must take microseconds."""
        ...

    def close(self) -> None: ...


class NullReader:
    """Stands where a machine has nothing to read, and says why."""

    def __init__(self, reason: str) -> None:
        self.reason: str | None = reason

    def read(self, pids: Sequence[int]) -> dict[str, Value]:
        return {}

    def close(self) -> None:
        pass
