"""What runs made of the hardware: tables of CPU, GPU and energy figures, and why some are missing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from rldyno.answers.groups import Group
from rldyno.answers.runs import Runs
from rldyno.results.load import Results
from rldyno.stats.bootstrap import Floats
from rldyno.text.numbers import number
from rldyno.text.tables import Table


@dataclass(frozen=True)
class Column:
    title: str
    source: str
    """The column of the results table without which there is no figure."""
    value: Callable[[Runs], Floats]


def column(title: str, source: str, scale: float = 1.0) -> Column:
    return Column(title, source, lambda runs: runs[source] * scale)


def share(title: str, source: str, whole: str, scale: float = 1.0) -> Column:
    return Column(title, source, lambda runs: scale * runs[source] / runs[whole])


CPU = (
    share("CPU, % of its cores", "cpu_percent", "cores"),
    column("Machine, % CPU", "machine_cpu_percent"),
    column("Machine idle before, % CPU", "idle_cpu_percent"),
    column("Threads busy", "threads_busy_mean"),
    column("Runnable at most", "threads_runnable_peak"),
    column("Oversubscribed, % of time", "oversubscribed_share", 100),
    share("Switches per s", "context_switches", "wall_s"),
    share("Forced, %", "context_switches_involuntary", "context_switches", 100),
    column("Instructions per cycle", "instructions_per_cycle"),
    share("Cache misses, %", "cache_misses", "cache_references", 100),
    column("Clock, MHz", "cpu_frequency_mhz"),
)
GPU = (
    column("GPU, %", "gpu_utilisation_percent"),
    column("Memory, MB", "gpu_memory_peak_bytes", 1e-6),
    column("Used on the device, MB", "gpu_memory_used_peak_bytes", 1e-6),
    column("Kept by the driver, MB", "gpu_memory_reserved_bytes", 1e-6),
    column("Power, W", "gpu_power_mean_w"),
    column("Peak, W", "gpu_power_peak_w"),
    column("SM clock, MHz", "gpu_sm_clock_mean_mhz"),
    column("Lowest, MHz", "gpu_sm_clock_min_mhz"),
    column("To device, MB", "transfer_to_device_bytes", 1e-6),
    column("To host, MB", "transfer_to_host_bytes", 1e-6),
)
ENERGY = (
    column("CPU, J", "cpu_energy_joules"),
    column("GPU, J", "gpu_energy_joules"),
    column("Together, J", "energy_joules"),
    column("To threshold, J", "energy_to_threshold_joules"),
    share("Per 1,000 steps, J", "energy_joules", "steps", 1000),
)
MEMORY = (
    column("Peak, MB", "peak_rss_bytes", 1e-6),
    column("Steady, MB", "memory_steady_bytes", 1e-6),
    column("In use at the end, MB", "memory_used_bytes", 1e-6),
    column("Growth, kB/s", "memory_growth_bytes_per_s", 1e-3),
)
"""Shown by the memory section; here for what is missing there."""
KINDS = {
    "cpu-use-of-runs": ("How runs used the CPU", CPU),
    "gpu-use-of-runs": ("How runs used the GPU", GPU),
    "energy-of-runs": ("Energy of runs", ENERGY),
}


def hardware_tables(results: Results, groups: Sequence[Group]) -> tuple[Table, ...]:
    """One row per contestant and comparison, medians over seeds; without columns that nobody has."""
    known = recorded(results)
    made = (
        use_table(name, title, [item for item in columns if item.source in known], groups)
        for name, (title, columns) in KINDS.items()
    )
    return tuple(table for table in made if table is not None)


def recorded(results: Results) -> set[str]:
    """Columns of which some finished trial has a figure."""
    done = results.trials.filter(pl.col("status") == "done")
    return {column.name for column in done if column.null_count() < len(done)}


def use_table(name: str, title: str, columns: Sequence[Column], groups: Sequence[Group]) -> Table | None:
    figures = [
        (row.contestant, group.label, [middle(item, group.runs[row.contestant]) for item in columns])
        for group in groups
        for row in group.rows
        if row.done
    ]
    kept = [index for index in range(len(columns)) if any(found[index] is not None for *_, found in figures)]
    rows = tuple(
        (contestant, label, *("–" if found[index] is None else number(found[index] or 0.0) for index in kept))
        for contestant, label, found in figures
        if any(found[index] is not None for index in kept)
    )
    if not kept or not rows:
        return None
    return Table(name, title, ("Contestant", "Comparison", *(columns[index].title for index in kept)), rows)


def middle(item: Column, runs: Runs) -> float | None:
    with np.errstate(divide="ignore", invalid="ignore"):
        values = item.value(runs)
    known = values[np.isfinite(values)]
    return float(np.median(known)) if len(known) else None


def not_measured(results: Results, groups: Sequence[Group]) -> list[tuple[str, tuple[str, ...]]]:
    """(why, the figures that are missing for that reason): of all runs, or of a contestant's in a table.

    Absent is said, not guessed.
    """
    known = recorded(results)
    by_reason: dict[str, list[str]] = {}
    for kind, columns in {"CPU": CPU, "GPU": GPU, "energy": ENERGY, "memory": MEMORY}.items():
        for item in columns:
            if item.source not in known:
                why = results.why_empty(item.source) or "not recorded"
                by_reason.setdefault(why, []).append(f"{kind}: {item.title}")
        for contestant, item, runs in gaps([item for item in columns if item.source in known], groups):
            why = results.why_empty(item.source, runs.trials) or "not recorded"
            by_reason.setdefault(why, []).append(f"{kind}: {item.title} of {contestant}")
    return [(why, tuple(dict.fromkeys(titles))) for why, titles in by_reason.items()]


def gaps(columns: Sequence[Column], groups: Sequence[Group]) -> Iterator[tuple[str, Column, Runs]]:
    """Fields that stay empty in the row of a contestant which has others."""
    for group in groups:
        for row in group.rows:
            runs = group.runs[row.contestant]
            empty = [item for item in columns if row.done and middle(item, runs) is None]
            if len(empty) < len(columns):
                yield from ((row.contestant, item, runs) for item in empty)
