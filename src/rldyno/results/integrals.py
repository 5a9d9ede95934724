"""liu2022's integrals over a run and figures per step, and why one is missing."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl

from rldyno.errors import Problem
from rldyno.probe.probe import FIRST_SLOW_NS
from rldyno.results.columns import INTEGRALS
from rldyno.results.load import Results
from rldyno.stats.moments import Floats

NAMES = tuple(column.name for column in INTEGRALS)
Figures = Mapping[str, float | None]


def integrals(
    returns: Floats,
    time_s: Floats,
    cpu_percent: Floats,
    memory_percent: Floats,
    run_s: float | None,
    steps: int | None,
) -> Figures:
    """Return is integrated over episodes, Σ Gᵢ; percentages over time, ∫ p dt in % · s."""
    known = returns[np.isfinite(returns)]
    cpu, memory = (integral(time_s, percent, run_s) for percent in (cpu_percent, memory_percent))
    return {
        "return_integral": float(known.sum()) if len(known) else None,
        "cpu_integral": cpu,
        "memory_integral": memory,
        "cpu_per_step": cpu / steps if cpu is not None and steps else None,
        "memory_per_step": memory / steps if memory is not None and steps else None,
    }


def integral(time_s: Floats, values: Floats, end_s: float | None = None) -> float | None:
    """∫ values dt from 0 to the end, trapezoidal; outside its readings the first and the last value hold.

    Without an end, or with one before the last sample, the last sample is the end.
    """
    known = np.isfinite(values)
    if not known.any():
        return None
    moments, heights = time_s[known], values[known]
    between = (heights[1:] + heights[:-1]) @ np.diff(moments) / 2
    end = max(time_s[-1], end_s or 0.0)
    return float(heights[0] * moments[0] + between + heights[-1] * (end - moments[-1]))


def mean_height(x: Floats, y: Floats, end: float) -> float:
    """∫ y dx / end from 0 to the end, trapezoidal; before its first point and after its last one y stays."""
    inside = (x > 0) & (x < end)
    moments = np.concatenate([[0.0], x[inside], [end]])
    heights = np.interp(moments, x, y)
    return float((heights[1:] + heights[:-1]) @ np.diff(moments) / 2 / end)


def missing(found: Figures, run_s: float | None, steps: int | None) -> dict[str, str]:
    """Figure → why it is null."""
    unread = "no sample has a reading of the whole machine"
    # Load is what lies between two readings, and the first is taken when the worker is there.
    if run_s is not None and run_s * 1e9 < 3 * FIRST_SLOW_NS:
        unread = "it ended before the first reading of the whole machine"
    why = {
        "return_integral": "no episode ended",
        "cpu_integral": unread,
        "memory_integral": unread,
        "cpu_per_step": "no environment step was taken" if not steps else unread,
        "memory_per_step": "no environment step was taken" if not steps else unread,
    }
    return {name: reason for name, reason in why.items() if found[name] is None}


def integrals_table(results: Results) -> tuple[pl.DataFrame, list[tuple[str, str, str]]]:
    """A row per ended trial; (trial, figure, why) of what is null."""
    rows, reasons = [], []
    for trial, run_s, steps in results.ended.select("trial", "wall_s", "steps").iter_rows():
        try:
            figures = trial_integrals(results, trial, run_s, steps)
        except Problem as problem:
            rows.append({"trial": trial})
            reasons += [(trial, name, problem.message) for name in NAMES]
            continue
        rows.append({"trial": trial, **figures})
        reasons += [(trial, name, why) for name, why in missing(figures, run_s, steps).items()]
    return pl.DataFrame(rows, schema={"trial": pl.String, **dict.fromkeys(NAMES, pl.Float64)}), reasons


def trial_integrals(results: Results, trial: str, run_s: float | None, steps: int | None) -> Figures:
    """Of one trial; Problem where its series cannot be read."""
    episodes, samples = results.episodes(trial), results.samples(trial)
    return integrals(
        floats(episodes["return"]),
        floats(samples["time_ns"]) / 1e9,
        floats(samples["machine_cpu_percent"]),
        floats(samples["machine_memory_percent"]),
        run_s,
        steps,
    )


def floats(column: pl.Series) -> Floats:
    return column.cast(pl.Float64).to_numpy()
