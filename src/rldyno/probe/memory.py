"""Memory of a worker: after each part of its start-up, in steady state, at its peak, and whether it leaks."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rldyno.probe.history import History
from rldyno.probe.metric import Answer
from rldyno.stats.trend import FEWEST_BLOCKS, PER_BLOCK, Trend, trend
from rldyno_rig.result_file import WorkerResult
from rldyno_rig.schema import STARTUP

if TYPE_CHECKING:
    import resource

LEAK_SHARE_PER_MINUTE = 0.01
"""Growth that counts as a leak, as a share of the steady resident set."""
LEAK_BYTES = 2**20
"""And at least so much in the second half of the training: allocators grow in steps of this size."""
_MARKS = {"import": "import", "build": "build", "first_call": "warm"}
"""Name of a mark → the part of start-up that ends there."""


@dataclass(frozen=True)
class Training:
    """The training loop of a worker that left a result."""

    start_ns: int
    length_ns: int
    steps: int
    replay_bytes: int = 0
    replay_rows: int = 0

    @staticmethod
    def of(result: WorkerResult | None) -> Training | None:
        if result is None or result.train_start_ns is None or not result.train_ns:
            return None
        memory = result.memory or {}
        return Training(
            result.train_start_ns,
            result.train_ns,
            result.steps,
            memory.get("replay_bytes") or 0,
            memory.get("replay_rows") or 0,
        )

    def after(self, share: float) -> tuple[float, float]:
        """From this share of the training to its end, in nanoseconds from the start of the worker."""
        return self.start_ns + share * self.length_ns, self.start_ns + self.length_ns

    def filling(self, share: float) -> float:
        """Bytes per second by which replay memory grows from this share on, while it is being filled."""
        if not self.replay_rows:
            return 0.0
        rows = min(self.replay_rows, self.steps) - min(self.replay_rows, share * self.steps)
        return rows * self.replay_bytes / self.replay_rows / ((1.0 - share) * self.length_ns / 1e9)


def memory_figures(
    history: History, result: WorkerResult | None, peak_bytes: int | None, no_uss: str | None = None
) -> dict[str, Answer]:
    """Key of `memory` in an outcome → its value or the reason. `no_uss`: why USS cannot be read."""
    training = Training.of(result)
    missed = "no sample was taken near that moment" if result else "the worker did not get there"
    figures: dict[str, Answer] = {
        f"after_{mark}_bytes": (_at_mark(history, result, mark), missed) for mark in _MARKS
    }
    unknown = "this C library cannot give freed memory back to the system" if result else missed
    figures["used_bytes"] = _noted(result, "used_bytes"), unknown
    figures["peak_bytes"] = peak_bytes, "no sample was taken"
    figures |= _steady_figures(history, training)
    if no_uss and not history.uss:
        figures["uss_steady_bytes"] = None, no_uss
    return figures


def peak_rss_bytes(sampled: int, usage: resource.struct_rusage | None) -> int | None:
    """The higher of the probe's peak (samples and VmHWM) and the kernel's ru_maxrss.

    The worker begins as a copy of this process, so ru_maxrss counts only where it is above our own.
    """
    if usage is None:  # also where the system has no `resource`
        return sampled or None
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return max(sampled, usage.ru_maxrss * unit if usage.ru_maxrss > own else 0) or None


def _noted(result: WorkerResult | None, name: str) -> int | None:
    """What the worker itself wrote down."""
    value = ((result.memory if result else None) or {}).get(name)
    return None if value is None else int(value)


def _at_mark(history: History, result: WorkerResult | None, mark: str) -> int | None:
    """What the worker wrote down; the probe's nearest sample where it could not."""
    noted = _noted(result, f"after_{mark}_bytes")
    if noted is not None:
        return noted
    startup = result.startup_ns if result else {}
    parts = STARTUP[: STARTUP.index(_MARKS[mark]) + 1]
    return history.nearest(sum(int(startup[part]) for part in parts)) if set(parts) <= set(startup) else None


def _steady_figures(history: History, training: Training | None) -> dict[str, Answer]:
    names = ("steady_bytes", "uss_steady_bytes", "growth_bytes_per_s", "growth_low", "growth_high", "leak")
    if training is None:
        return dict.fromkeys(names, (None, "the worker left no result of a training"))
    second_half = training.after(0.5)
    times, rss = history.between(*second_half)
    uss = [held for time, held in history.uss if second_half[0] <= time <= second_half[1]]
    steady = _median(rss)
    growth = trend(times, rss)
    few = f"fewer than {FEWEST_BLOCKS * PER_BLOCK} samples fell into the second half of the training"
    values = (
        (steady, "no sample fell into the second half of the training"),
        (_median(uss), "no reading fell into the second half of the training"),
        *((value, few) for value in growth or (None,) * 3),
        (growth and leaks(history, training, growth, steady or 0), few),
    )
    return dict(zip(names, values, strict=True))


def leaks(history: History, training: Training, growth: Trend, steady_bytes: int) -> bool:
    """Whether memory grew with certainty, more than replay memory explains, until the end.

    Over the second half of the training the whole interval must lie above the limit, and the last eighth
    alone must still grow at half the rate: memory that fills up and then stays is not a leak.
    """
    limit = LEAK_SHARE_PER_MINUTE * steady_bytes / 60.0
    excess = growth.rate - training.filling(0.5)
    if growth.low - training.filling(0.5) <= limit or excess * training.length_ns / 2e9 < LEAK_BYTES:
        return False
    late = _rate(*history.between(*training.after(0.875))) - training.filling(0.875)
    return late > max(limit, excess / 2)


def leak_warning(memory: Mapping[str, Any]) -> str | None:
    if not memory["leak"]:
        return None
    rate, low, high = (memory[name] / 2**20 for name in ("growth_bytes_per_s", "growth_low", "growth_high"))
    return (
        f"memory leak: the resident set grew by {rate:.3g} MiB/s (95 % interval {low:.3g} to {high:.3g}) "
        "until the end of the training"
    )


def _median(values: Sequence[int]) -> int | None:
    return round(statistics.median(values)) if values else None


def _rate(times: Sequence[float], values: Sequence[float]) -> float:
    """From the median of the first third to that of the last."""
    if len(values) < 2:
        return 0.0
    third = max(1, len(values) // 3)
    elapsed = statistics.median(times[-third:]) - statistics.median(times[:third])
    grown = statistics.median(values[-third:]) - statistics.median(values[:third])
    return grown / elapsed if elapsed > 0 else 0.0
