"""The points of a trial's curves, as TensorBoard gets them: from whole records, or from records that grow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rldyno_rig import schema

if TYPE_CHECKING:
    import polars as pl

Json = dict[str, Any]
Floats = NDArray[np.float64]

MEANS = ("rss_bytes", "uss_bytes", "machine_cpu_percent", "machine_memory_percent")
"""Columns of the samples shown as means over a progress row, beside all the GPU's."""


class Point(NamedTuple):
    step: int
    time_ns: int
    values: dict[str, float]
    """Tag → value."""


class Curves:
    """Turns the rows of a trial into points, in as many portions as they come in.

    A row of progress waits until the samples of its second are there, so the portions change no value.
    """

    def __init__(self) -> None:
        self._earlier: Json | None = None
        """The last row of progress that became a point."""
        self._waiting: pl.DataFrame | None = None
        self._samples: pl.DataFrame | None = None

    def more(
        self, episodes: pl.DataFrame, progress: pl.DataFrame, samples: pl.DataFrame, *, ended: bool
    ) -> Iterator[Point]:
        """Episodes as they ended, then one point per row of progress: learning, speed, phases, resources."""
        for step, time_ns, value in episodes.select("step", "time_ns", "return").iter_rows():
            yield Point(step, time_ns, {"return/episode": value})
        waiting = progress if self._waiting is None else self._waiting.vstack(progress)
        known = samples if self._samples is None else self._samples.vstack(samples)
        sampled_ns = -1 if known.is_empty() else known["time_ns"][-1]
        ready = waiting if ended else waiting.filter(waiting["time_ns"] <= sampled_ns)
        self._waiting = waiting[len(ready) :]
        yield from self._points(ready, known)
        self._samples = self._still_needed(known)

    def _points(self, progress: pl.DataFrame, samples: pl.DataFrame) -> Iterator[Point]:
        ends = progress["time_ns"].to_numpy().astype(np.float64)
        before = self._earlier["time_ns"] if self._earlier else None
        resources = resource_means(before, ends, samples)
        for index, row in enumerate(progress.iter_rows(named=True)):
            values = {"return/mean": row["return_mean"], "loss": row["loss"], **rates(self._earlier, row)}
            values |= {f"resources/{name}": float(column[index]) for name, column in resources.items()}
            known = {tag: value for tag, value in values.items() if value is not None and np.isfinite(value)}
            yield Point(row["step"], row["time_ns"], known)
            self._earlier = row

    def _still_needed(self, samples: pl.DataFrame) -> pl.DataFrame:
        """From the last sample before the next second on: from there on values are interpolated."""
        if self._earlier is None or samples.is_empty():
            return samples
        first = samples["time_ns"].search_sorted(self._earlier["time_ns"], side="right")
        return samples[max(0, int(first) - 1) :]


def rates(earlier: Json | None, row: Json) -> dict[str, float]:
    """Steps per second and the share of every phase since the row before. A guest has no phases: from its
    second row on the time that has passed counts.
    """
    names = ["step", "time_ns", *(f"{phase}_ns" for phase in schema.PHASES)]
    before = earlier or dict.fromkeys(names, 0)
    gone = {name: row[name] - before[name] for name in names if None not in (row[name], before[name])}
    spent = {phase: gone[f"{phase}_ns"] for phase in schema.PHASES if f"{phase}_ns" in gone}
    if len(spent) == len(schema.PHASES):
        total = sum(spent.values())
    else:
        spent, total = {}, gone.get("time_ns", 0) if earlier else 0
    if total <= 0 or "step" not in gone:
        return {}
    found = {f"phases/{phase}": spent_ns / total for phase, spent_ns in spent.items()}
    return {"speed/steps_per_s": gone["step"] / (total / 1e9), **found}


def resource_means(before: float | None, ends: Floats, samples: pl.DataFrame) -> dict[str, Floats]:
    """Figures of the probe over the second that ends at each of these times; NaN where nothing was read.

    `before`: the end that came before the first of them; None at the start of a trial.
    """
    times = samples["time_ns"].to_numpy().astype(np.float64)
    if not len(times) or not len(ends):
        return {}
    spent = (samples["cpu_user_ns"] + samples["cpu_system_ns"]).to_numpy().astype(np.float64)
    starts = np.concatenate([[max(0.0, ends[0] - 1e9) if before is None else before], ends[:-1]])
    used = np.interp(ends, times, spent) - np.interp(starts, times, spent)
    with np.errstate(invalid="ignore", divide="ignore"):
        found = {"cpu_percent": 100.0 * used / (ends - starts)}
    for name in samples.columns:
        if name in MEANS or name.startswith("gpu_"):
            column = samples[name].to_numpy().astype(np.float64)
            if np.isfinite(column).any():
                found[name] = means(times, column, starts, ends)
    return found


def means(times: Floats, values: Floats, starts: Floats, ends: Floats) -> Floats:
    """Mean of the readings in each interval (start, end]; NaN without one."""
    known = np.isfinite(values)
    sums = np.concatenate([[0.0], np.cumsum(values[known])])
    first, last = (np.searchsorted(times[known], edge, side="right") for edge in (starts, ends))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray((sums[last] - sums[first]) / (last - first))
