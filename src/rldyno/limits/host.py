"""`python -m rldyno.limits.host CORES`: this process's peak matrix product and copy bandwidth, as JSON.

A process of its own, because a BLAS sizes its thread pool when NumPy is imported.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable
from functools import partial

import numpy as np

MATRICES = (256, 512, 1024, 2048)
COPIES = tuple(2**exponent for exponent in (17, 20, 23, 26))
SECONDS = 0.15
"""Of every size."""
WINDOWS = 10


def peak_flops(dtype: str) -> float:
    """2 n³ over the shortest time of a product of n × n matrices, the best of several n."""
    rng = np.random.default_rng(0)
    rates = []
    for n in MATRICES:
        a, b = (rng.standard_normal((n, n)).astype(dtype) for _ in range(2))
        out = np.empty_like(a)
        rates.append(2 * n**3 / shortest(partial(np.matmul, a, b, out=out)))
    return max(rates)


def shortest(call: Callable[[], object], seconds: float = SECONDS) -> float:
    """Seconds of the quickest call; the first one warms up and does not count."""
    call()
    best, stop_at = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < stop_at or best == float("inf"):
        started = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - started)
    return best


def copy_bandwidth(cores: int) -> float:
    """Bytes read plus written per second: the best of several sizes, of one thread and of one per core."""
    tries = [(threads, size) for threads in {1, cores} for size in COPIES for _ in range(WINDOWS)]
    return max(_copying(threads, size) for threads, size in tries)


def _copying(count: int, size: int) -> float:
    """Of one window: a machine that is busy elsewhere is fast in some of them."""
    copied = [0] * count
    go = threading.Barrier(count + 1)
    stop_at = [0.0]

    def copy(index: int) -> None:
        source, target = np.ones(size, np.uint8), np.zeros(size, np.uint8)
        go.wait()
        while time.perf_counter() < stop_at[0]:
            np.copyto(target, source)
            copied[index] += 2 * size

    threads = [threading.Thread(target=copy, args=(index,)) for index in range(count)]
    for thread in threads:
        thread.start()
    started = time.perf_counter()
    stop_at[0] = started + SECONDS / WINDOWS
    go.wait()
    for thread in threads:
        thread.join()
    return sum(copied) / (time.perf_counter() - started)


def main() -> None:
    cores = int(sys.argv[1])
    flops = {dtype: peak_flops(dtype) for dtype in ("float32", "float64")}
    print(json.dumps({"flops_per_s": flops, "copy_bytes_per_s": copy_bandwidth(cores)}))


if __name__ == "__main__":
    main()
