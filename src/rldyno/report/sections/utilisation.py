"""Every contestant in every setting, side by side: score, time, and what it used of the machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import polars as pl

from rldyno.answers.groups import Group
from rldyno.answers.runs import Runs
from rldyno.probe import metrics
from rldyno.records.status import DONE
from rldyno.report.charts import draw_side_by_side
from rldyno.report.material import GroupPlace, Material
from rldyno.report.section import Chart, Panel, Section, slug, spread
from rldyno.report.series import Run, RunValues
from rldyno.results.columns import COLUMNS, column
from rldyno.results.condition_columns import DEVICE, NOISE
from rldyno.results.load import Results
from rldyno.stats.moments import Floats
from rldyno.text.numbers import number
from rldyno.text.tables import Table

CAPTION = (
    "Medians over seeds; lines lie between the quartiles. The final score is over the last episodes, as many "
    "as the study's stop rule has (100 without one). CPU is that of the workers and their child "
    "processes, in percent of the cores they were given; RAM is that of the whole machine. Pale bars are "
    "shown but not ranked."
)


# --- charts, as seong2024 draws them ------------------------------------------------------------------------


@dataclass(frozen=True)
class Bars:
    """What one chart compares."""

    title: str
    unit: str
    value: pl.Expr
    """Of the trials table joined with the run values below, in the unit."""


def of_column(name: str, *otherwise: str) -> Bars:
    """A column of the trials, or what the samples show where the trial did not record it."""
    shown = column(name)
    return Bars(shown.heading, shown.unit or shown.meaning, pl.coalesce(name, *otherwise) * shown.scale)


BARS = {
    "final-score": Bars("Final score", "mean return at the end", pl.coalesce("final_score", "final_return")),
    "training-time": of_column("watched_s"),
    "cpu-use": Bars(
        "CPU utilisation",
        "% of the trial's cores",
        pl.col("cpu_percent") / (pl.col("cores") * pl.col("workers")),
    ),
    "memory-use": Bars("RAM utilisation", "% of the machine", pl.col("sampled_memory_percent")),
    "gpu-use": of_column("gpu_utilisation_percent", "sampled_gpu_percent"),
    "gpu-memory-use": Bars("Mean GPU memory", "MB", pl.col("sampled_gpu_memory_bytes") * 1e-6),
    "gpu-memory-share": Bars(
        "GPU memory utilisation",
        "% of the GPU",
        100 * pl.col("sampled_gpu_memory_bytes") / pl.col("gpu_memory_total_bytes"),
    ),
    "gpu-memory-peak": of_column("gpu_memory_peak_bytes"),
    "power-use": of_column("gpu_power_mean_w", "sampled_power_w"),
    "energy-use": of_column("energy_joules", "sampled_energy_joules"),
    "energy-to-threshold": of_column("energy_to_threshold_joules"),
}


def all_bars() -> dict[str, Bars]:
    """With columns that ask for a chart themselves."""
    asking = [item for item in COLUMNS.values() if item.charted]
    return BARS | {slug(item.key): of_column(item.name) for item in asking}


MEANS = {
    "sampled_memory_percent": "machine_memory_percent",
    "sampled_gpu_percent": "gpu_percent",
    "sampled_gpu_memory_bytes": "gpu_memory_bytes",
    "sampled_power_w": "gpu_power_w",
}
"""Run value → the column of the samples that it is the mean of."""


def sampled_values(run: Run) -> dict[str, float | None]:
    means = {name: mean(run.samples[source]) for name, source in MEANS.items()}
    return {**means, "sampled_energy_joules": rise(run.samples["energy_joules"]), "final_score": score(run)}


def score(run: Run) -> float | None:
    """Over the episodes of the stop rule: a run that met it with one episode has the return of that one."""
    returns = run.episodes["return"]
    return mean(returns[np.isfinite(returns)][-run.window :])


RUN_VALUES = RunValues(
    (*MEANS, "sampled_energy_joules", "final_score"),
    sampled_values,
    episodes=("return",),
    samples=(*MEANS.values(), "energy_joules"),
)


def mean(values: Floats) -> float | None:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else None


def rise(counter: Floats) -> float | None:
    """Of a counter over the run."""
    known = counter[np.isfinite(counter)]
    return float(known[-1] - known[0]) if len(known) > 1 else None


def charts(material: Material) -> list[Panel]:
    lines = 1 + max((len(group.setting.split(", ")) for group in material.groups if group.setting), default=0)
    found = []
    for index, (task, places) in enumerate(material.tasks.items()):
        drawn = tuple(task_charts(places, lines))
        if drawn:
            found.append(Panel(f"task-{index}", task, drawn))
    return found


def task_charts(places: Sequence[GroupPlace], lines: int) -> Iterator[Chart]:
    measures = {name: bars.value for name, bars in all_bars().items()}
    summaries = [
        (
            row | {"ranked": row["contestant"] in {one.contestant for one in place.group.ranked}},
            place.group.setting,
        )
        for place in places
        for row in place.summary(measures).iter_rows(named=True)
    ]
    # Each contestant's settings together, in their order.
    contestants = list(dict.fromkeys(row["contestant"] for row, _ in summaries))
    summaries.sort(key=lambda pair: contestants.index(pair[0]["contestant"]))
    for name, bars in all_bars().items():
        known = [pair for pair in summaries if pair[0][f"{name} middle"] is not None]
        rows = [
            {
                "contestant": row["contestant"],
                "label": f"{row['contestant']}, {setting}" if setting else row["contestant"],
                "order": order,
                "ranked": row["ranked"],
                **spread(row, name, "value"),
                "text": number(row[f"{name} middle"]),
            }
            for order, (row, setting) in enumerate(known)
        ]
        if rows:
            draw = partial(draw_side_by_side, x_title=bars.unit, lines=lines)
            yield Chart(name, bars.title, CAPTION, draw, rows)


# --- tables of what runs used, and what could not be measured -----------------------------------------------


@dataclass(frozen=True)
class Use:
    """A column of a table: the median over seeds of a value of each run."""

    title: str
    source: str
    """The column of the trials without which there is no value."""
    value: Callable[[Runs], Floats]


def use(source: str) -> Use:
    shown = column(source)
    title = f"{shown.heading}, {shown.unit}" if shown.unit else shown.heading
    return Use(title, source, lambda runs: runs[source] * shown.scale)


def share(title: str, source: str, whole: str, scale: float = 1.0) -> Use:
    return Use(title, source, lambda runs: scale * runs[source] / runs[whole])


CPU = (
    Use(
        "CPU, % of its cores",
        "cpu_percent",
        lambda runs: runs["cpu_percent"] / (runs["cores"] * runs["workers"]),
    ),
    use("machine_cpu_percent"),
    use("idle_cpu_percent"),
    use("threads_busy_mean"),
    use("threads_runnable_peak"),
    use("oversubscribed_share"),
    share("Context switches per s", "context_switches", "wall_s"),
    share("Forced by the kernel, %", "context_switches_involuntary", "context_switches", 100),
    use("instructions_per_cycle"),
    share("Cache misses, %", "cache_misses", "cache_references", 100),
    use("cpu_frequency_mhz"),
)
GPU = tuple(
    map(
        use,
        (
            "gpu_utilisation_percent",
            "gpu_memory_peak_bytes",
            "gpu_memory_used_peak_bytes",
            "gpu_memory_reserved_bytes",
            "gpu_power_mean_w",
            "gpu_power_peak_w",
            "gpu_sm_clock_mean_mhz",
            "gpu_sm_clock_min_mhz",
            "transfer_to_device_bytes",
            "transfer_to_host_bytes",
        ),
    )
)
ENERGY = (
    use("cpu_energy_joules"),
    use("gpu_energy_joules"),
    use("energy_joules"),
    use("energy_to_threshold_joules"),
    share("Energy per 1,000 steps, J", "energy_joules", "steps", 1000),
)
MEMORY = (
    use("peak_rss_bytes"),
    use("memory_steady_bytes"),
    use("memory_used_bytes"),
    use("memory_growth_bytes_per_s"),
)
"""Other sections show it; here for what is missing there."""


def other_uses() -> tuple[Use, ...]:
    """All other measured values of use: a new metric appears here without an edit."""
    shown = {item.source for item in (*CPU, *GPU, *ENERGY, *MEMORY)}
    return tuple(
        use(item.name)
        for item in (*metrics.columns(), *NOISE, *DEVICE)
        if item.title and item.kind in (int, float) and item.name not in shown
    )


def tables(material: Material) -> list[Table]:
    """One row per contestant and comparison, medians over seeds; without columns that no run has."""
    known = recorded(material.results)
    kinds = {
        "cpu-use-of-runs": ("How runs used the CPU", CPU),
        "gpu-use-of-runs": ("How runs used the GPU", GPU),
        "energy-of-runs": ("Energy of runs", ENERGY),
        "other-use-of-runs": ("What else was measured of runs", other_uses()),
    }
    made = (
        use_table(name, title, [item for item in columns if item.source in known], material.groups)
        for name, (title, columns) in kinds.items()
    )
    return [table for table in made if table is not None]


def recorded(results: Results) -> set[str]:
    """Columns of which some finished trial has a value."""
    done = results.trials.filter(pl.col("status") == DONE)
    return {values.name for values in done if values.null_count() < len(done)}


def use_table(name: str, title: str, columns: Sequence[Use], groups: Sequence[Group]) -> Table | None:
    values = [
        (row.contestant, group.label, [middle(item, group.runs[row.contestant]) for item in columns])
        for group in groups
        for row in group.rows
        if row.done
    ]
    kept = [index for index in range(len(columns)) if any(found[index] is not None for *_, found in values)]
    rows = tuple(
        (contestant, label, *("–" if found[index] is None else number(found[index] or 0.0) for index in kept))
        for contestant, label, found in values
        if any(found[index] is not None for index in kept)
    )
    if not kept or not rows:
        return None
    return Table(name, title, ("Contestant", "Comparison", *(columns[index].title for index in kept)), rows)


def middle(item: Use, runs: Runs) -> float | None:
    with np.errstate(divide="ignore", invalid="ignore"):
        values = item.value(runs)
    known = values[np.isfinite(values)]
    return float(np.median(known)) if len(known) else None


def not_measured(results: Results, groups: Sequence[Group]) -> list[tuple[str, tuple[str, ...]]]:
    """(reason, the values that are missing for it): of all runs, or of one contestant in a table."""
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


def gaps(columns: Sequence[Use], groups: Sequence[Group]) -> Iterator[tuple[str, Use, Runs]]:
    """Values that are missing in the row of a contestant which has others."""
    for group in groups:
        for row in group.rows:
            runs = group.runs[row.contestant]
            empty = [item for item in columns if row.done and middle(item, runs) is None]
            if len(empty) < len(columns):
                yield from ((row.contestant, item, runs) for item in empty)


def context(material: Material) -> dict[str, Any]:
    return {"not_measured": not_measured(material.results, material.groups)}


SECTION = Section(
    id="utilisation",
    order=110,
    title="Utilisation, side by side",
    about="score, time, CPU, memory, GPU and energy of every contestant in every setting",
    short="Utilisation",
    charts=charts,
    tables=tables,
    context=context,
    run_values=(RUN_VALUES,),
    legend=True,
)
