"""Where the time of the training loop goes, in integer nanoseconds."""

from __future__ import annotations

import time
from typing import Callable, Dict, List

from rldyno_rig.schema import PHASES

ENVIRONMENT, ACT, STORE, TRANSFER, UPDATE, READ, OTHER = range(len(PHASES))
COMMUNICATE = len(PHASES)
"""Of teams only, so it is none of PHASES."""


class Clock:
    """Every call of `mark(phase)` books the time since the last call on that phase and returns the time.

    A closure over a list, not a method: it runs several times per environment step.
    """

    def __init__(self, tick: Callable[[], int] = time.perf_counter_ns) -> None:
        self.spent: List[int] = [0] * (COMMUNICATE + 1)
        self._tick = tick
        self.started = 0
        self.mark: Callable[[int], int] = self._marker()

    def start(self) -> int:
        """Forget everything and begin now."""
        self.started = self.mark(OTHER)
        self.spent[:] = [0] * len(self.spent)
        return self.started

    def phases(self) -> Dict[str, int]:
        return dict(zip(PHASES, self.spent))

    def _marker(self) -> Callable[[int], int]:
        tick, spent = self._tick, self.spent
        last = tick()

        def mark(phase: int) -> int:
            nonlocal last
            now = tick()
            spent[phase] += now - last
            last = now
            return now

        return mark
