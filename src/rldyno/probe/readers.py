"""Figures that need special hardware: GPUs and energy counters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

Value = int | float | None


class Reader(Protocol):
    """Fills some of the columns `gpu_*` and `*_energy_joules`."""

    reasons: dict[str, str]
    """Column → why it is not measured, or since when no longer."""

    def read(self, time_ns: int, pids: Sequence[int], slow: bool) -> dict[str, Value]:
        """Column → value, `time_ns` after the spawn, for these processes.

        Called once per sample; `slow`, once a second, asks for the dearer and the cumulative figures too.
        """
        ...

    def close(self) -> None: ...
