"""How busy the GPU is while a contestant measures."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Sequence

from rldyno.probe.readers import NullReader, Reader

PERIOD_S = 0.05
SETTLE_S = 0.25
"""NVML's figure is a mean over the last sixth of a second: earlier readings speak of what ran before."""


class Utilisation:
    """`with Utilisation(reader, pids) as busy: …`, then `busy.percent`: the mean, None if not measured."""

    def __init__(self, reader: Reader, pids: Sequence[int]) -> None:
        self._reader = reader
        self._pids = pids
        self._stop = threading.Event()
        self._seen: list[float] = []
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Utilisation:
        if self._reader.reason is None:
            self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()

    @property
    def percent(self) -> float | None:
        return statistics.fmean(self._seen) if self._seen else None

    def _watch(self) -> None:
        settled = time.monotonic() + SETTLE_S
        while not self._stop.wait(PERIOD_S):
            percent = self._reader.read(self._pids).get("gpu_percent")
            if percent is not None and time.monotonic() >= settled:
                self._seen.append(float(percent))


def open_reader(device: str) -> Reader:
    if device == "cpu":
        return NullReader("the network runs on the CPU")
    return NullReader("no reader of GPU figures")
