"""Bytes between host and device, and on the device.

What is moved is the size of one call, which never changes, times how often it was made.
"""

from __future__ import annotations

from typing import Any, Dict, NamedTuple

import numpy as np

from rldyno_rig.recorder import Recorder

ON_THE_HOST = "the cpu device computes on host memory: nothing is moved"


class Sizes(NamedTuple):
    """Bytes of the arrays of one call; the optimiser's few scalars are not counted."""

    observed: int
    """Put for an act."""
    acted: int
    """Returned by it."""
    batch: int
    """Put for an update."""
    report: int
    """Loss and priorities, where they are read."""


def total_bytes(arrays: Any) -> int:
    return sum(np.asarray(array).nbytes for array in arrays)


def moved(sizes: Sizes, recorder: Recorder, device: str) -> Dict[str, Any]:
    """`transfer` of result.json. The copy of the actions to the host is part of `act`, not of `read_ns`."""
    figures = {
        "to_device_bytes": sizes.observed * recorder.acts + sizes.batch * recorder.updates,
        "to_host_bytes": sizes.acted * recorder.acts + sizes.report * recorder.reads,
        "put_ns": recorder.clock.phases()["transfer"],
        "read_ns": recorder.clock.phases()["read"],
    }
    if device == "cpu":
        return {**dict.fromkeys(figures), "reasons": dict.fromkeys(figures, ON_THE_HOST)}
    return {**figures, "reasons": {}}


def device_memory(backend: Any, device: str) -> Dict[str, Any]:
    """What the framework reports that its arrays use and its allocator reserves, at the end of a trial."""
    known = backend.device_memory() if device != "cpu" and hasattr(backend, "device_memory") else None
    figures = {name: (known or {}).get(name) for name in ("used_bytes", "used_peak_bytes", "reserved_bytes")}
    why = ON_THE_HOST if device == "cpu" else "the framework does not report it"
    return {**figures, "reasons": {name: why for name, value in figures.items() if value is None}}
