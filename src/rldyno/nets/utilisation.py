"""How busy the GPU is while a contestant measures."""

from __future__ import annotations

import os
import statistics
import threading
import time
from collections.abc import Callable

PERIOD_S = 0.05
SETTLE_S = 1.0
"""NVML's figure is a mean over up to a second: earlier readings are about what ran before."""
SHORTEST_S = 1.5
"""Shortest measurement that has a utilisation. In a quarter of a second a busy H200 read as 0 %."""

Meter = Callable[[], float | None]
"""The device's utilisation now, in percent."""


def open_meter(device: str) -> tuple[Meter | None, str | None]:
    """(a meter of the first GPU that workers see, or None; why there is none)."""
    if device == "cpu":
        return None, "the network runs on the CPU"
    from rldyno.probe.nvml import Device, start_nvml, visible_devices

    nvml, reason = start_nvml()
    if nvml is None:
        return None, reason
    visible = visible_devices(nvml, os.environ)
    if not visible:
        return None, "NVML lists no GPU that workers may use"
    index, handle = visible[0]
    gpu = Device(nvml, handle, index)
    return lambda: gpu.get("percent"), gpu.reasons.get("percent")


class Utilisation:
    """`with Utilisation(meter) as busy: …`, then `busy.percent`: the mean, None if not measured."""

    def __init__(self, meter: Meter | None) -> None:
        self._meter = meter
        self._stop = threading.Event()
        self._seen: list[float] = []
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Utilisation:
        if self._meter is not None:
            self._thread = threading.Thread(target=self._watch, args=(self._meter,), daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    @property
    def percent(self) -> float | None:
        return statistics.fmean(self._seen) if self._seen else None

    def _watch(self, meter: Meter) -> None:
        settled = time.monotonic() + SETTLE_S
        while not self._stop.wait(PERIOD_S):
            percent = meter()
            if percent is not None and time.monotonic() >= settled:
                self._seen.append(percent)
