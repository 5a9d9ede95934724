"""GPU memory of one trial, from every source that knows some of it: the peak is the largest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

PROCESSES, DEVICE, FRAMEWORK = "processes", "device", "framework"
"""What NVML lists for the trial's processes; what its GPUs gained since before it; what the worker says."""

_SHARED = "another process began to use the GPU during the trial"
_UNLISTED = "NVML listed none of the trial's processes, or not what they hold"
_GROWN_BYTES = 2**20
"""Device memory beyond this above the level before the trial is taken for the trial's."""


class Gpu(Protocol):
    """The latest answers of one GPU."""

    @property
    def listed(self) -> Mapping[int, int | None] | None:
        """pid → bytes, None where NVML does not show how much; None if it does not list processes."""

    def gained(self) -> int | None:
        """Bytes in use beyond those before the trial."""


class OwnMemory:
    """What NVML shows of it. Neither source sees everything.

    The list of processes is read once a second, and containers hide processes from it or renumber them. What
    the devices gained is read with every sample, but is the trial's alone only while no other process begins
    to use them.
    """

    def __init__(self, gpus: Sequence[Gpu], strangers: Sequence[int]) -> None:
        """`strangers`: processes that used the GPUs before the trial."""
        self._gpus = gpus
        self._others = set(strangers)
        self._own: set[int] = set()
        self._newcomers = False
        self._highest: dict[str, int] = {}

    @property
    def shared(self) -> bool:
        """Whether others came. Where none of the trial's processes is listed, the newcomers may be they."""
        return self._newcomers and bool(self._own)

    @property
    def peaks(self) -> dict[str, int]:
        """Source → the most memory that it saw."""
        counted = (PROCESSES,) if self.shared else (PROCESSES, DEVICE)
        return {source: self._highest[source] for source in counted if source in self._highest}

    @property
    def reasons(self) -> dict[str, str]:
        """Source → why it does not count, where NVML gave no reason."""
        found = {DEVICE: _SHARED} if self.shared else {}
        return found if PROCESSES in self._highest else found | {PROCESSES: _UNLISTED}

    def read(self, pids: Sequence[int], listed: bool) -> int | None:
        """Memory of the trial now; `listed`: whether the processes were just read."""
        found = [self._gained(), self._held(pids) if listed else None]
        if self.shared:
            del found[0]
        return max((held for held in found if held is not None), default=None)

    def _gained(self) -> int | None:
        gains = [gain for gpu in self._gpus if (gain := gpu.gained()) is not None]
        if len(gains) < len(self._gpus) or (sum(gains) < _GROWN_BYTES and DEVICE not in self._highest):
            return None
        return self._note(DEVICE, sum(gains))

    def _held(self, pids: Sequence[int]) -> int | None:
        lists = [found for gpu in self._gpus if (found := gpu.listed) is not None]
        self._own.update(pid for found in lists for pid in found if pid in pids)
        self._newcomers |= any(pid not in self._own | self._others for found in lists for pid in found)
        held = [amount for found in lists for pid, amount in found.items() if pid in pids]
        known = [amount for amount in held if amount is not None]
        if not held or len(known) < len(held) or len(lists) < len(self._gpus):
            return None
        return self._note(PROCESSES, sum(known))

    def _note(self, source: str, held: int) -> int:
        self._highest[source] = max(held, self._highest.get(source, 0))
        return held
