"""How fast a device does a piece of work: shared by the frameworks that measure it."""

from __future__ import annotations

import time
from typing import Any, Callable, List

MATRICES = (2048, 4096, 8192)
COPY_BYTES = 2**28
CALLS = 10


def best_rate(amount: float, call: Callable[[], Any], wait: Callable[[], Any]) -> float:
    """`amount` per call over the shortest of some runs of CALLS calls; the device is waited for."""
    call()
    wait()
    times: List[float] = []
    for _ in range(5):
        started = time.perf_counter()
        for _ in range(CALLS):
            call()
        wait()
        times.append(time.perf_counter() - started)
    return amount * CALLS / min(times)
