"""Figures of whole runs side by side: against an axis of the study, and over all settings of a task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from rldyno.answers.groups import Group, axis_words
from rldyno.text.numbers import number

Json = dict[str, Any]


@dataclass(frozen=True)
class Measure:
    name: str
    title: str
    unit: str
    value: pl.Expr
    """Of the trials table joined with the integrals of series.USE_SCHEMA."""


# liu2022's figures against cores and GPUs, then the one that people ask for next.
AGAINST_AXIS = (
    Measure("return-integral", "Integral of return", "return · episodes", pl.col("return_integral")),
    Measure("cpu-integral", "Integral of CPU use", "% of the machine · s", pl.col("cpu_integral")),
    Measure("memory-integral", "Integral of memory use", "% of the machine · s", pl.col("memory_integral")),
    Measure("cpu-per-step", "CPU use per step", "% of the machine · s / step", pl.col("cpu_per_step")),
    Measure(
        "memory-per-step", "Memory use per step", "% of the machine · s / step", pl.col("memory_per_step")
    ),
    Measure("speed", "Speed", "steps/s", pl.col("steps_per_s")),
)
# seong2024's figures.
SIDE_BY_SIDE = (
    Measure("final-score", "Final score", "mean return of the last episodes", pl.col("final_return")),
    Measure("training-time", "Training time", "s, start-up included", pl.col("watched_s")),
    Measure("cpu-use", "CPU utilisation", "% of the trial's cores", pl.col("cpu_percent") / pl.col("cores")),
    Measure("memory-use", "RAM utilisation", "% of the machine", pl.col("memory_percent")),
    Measure("gpu-use", "GPU utilisation", "%", pl.coalesce("gpu_utilisation_percent", "gpu_percent")),
    Measure("gpu-memory-use", "GPU memory", "MB", pl.col("gpu_memory_mb")),
    Measure("power-use", "Power of the GPU", "W", pl.coalesce("gpu_power_mean_w", "power_w")),
    Measure("energy-use", "Energy", "J", pl.coalesce("energy_joules", "energy_j")),
    Measure("energy-to-threshold", "Energy to the threshold", "J", pl.col("energy_to_threshold_joules")),
)
AXIS_TITLES = {"cores": "CPU cores", "workers": "workers"}


@dataclass(frozen=True)
class Family:
    """Groups that differ in one axis only."""

    axis: str
    label: str
    members: tuple[int, ...]
    """Indices of the groups, by rising value of the axis."""


def families(groups: Sequence[Group]) -> list[Family]:
    """One per numeric axis that varies and setting of all the others."""
    if not groups:
        return []
    found = []
    for axis in ("cores", "workers", *(name for name in groups[0].axes if name.startswith("hyper."))):
        alike: dict[tuple[Any, ...], list[int]] = {}
        for index, group in enumerate(groups):
            if isinstance(group.axes[axis], int | float):
                rest = tuple(value for name, value in group.axes.items() if name != axis)
                alike.setdefault(rest, []).append(index)
        varying = varying_axes(groups)
        for members in alike.values():
            if len(members) > 1:
                ordered = sorted(members, key=lambda index: groups[index].axes[axis])
                found.append(Family(axis, family_label(groups[members[0]], axis, varying), tuple(ordered)))
    return found


def varying_axes(groups: Sequence[Group]) -> list[str]:
    return [name for name in groups[0].axes if len({repr(group.axes[name]) for group in groups}) > 1]


def family_label(group: Group, axis: str, varying: Sequence[str]) -> str:
    others = [name for name in varying if name not in ("algorithm", "environment", axis)]
    words = [axis_words(name, group.axes[name]) for name in others if group.axes[name] is not None]
    return ", ".join([f"{group.algorithm} on {group.environment}", *words])


def axis_title(axis: str, group: Group) -> str:
    if axis == "workers" and group.axes["device"] != "cpu":
        return "GPUs, one per worker"
    return AXIS_TITLES.get(axis, axis.removeprefix("hyper."))


def axis_rows(
    family: Family, summaries: Sequence[pl.DataFrame], groups: Sequence[Group], name: str
) -> list[Json]:
    """Rows of `charts.scaling`: a measure of every contestant at every value of the axis."""
    return [
        {"contestant": row["contestant"], "x": groups[index].axes[family.axis], **spread(row, name, "y")}
        for index in family.members
        for row in summaries[index].iter_rows(named=True)
        if row[f"{name} middle"] is not None
    ]


def spread(row: Mapping[str, Any], name: str, key: str) -> Json:
    return {
        key: significant(row[f"{name} middle"]),
        "low": significant(row[f"{name} low"]),
        "high": significant(row[f"{name} high"]),
    }


def tasks(groups: Sequence[Group]) -> dict[str, list[int]]:
    """Task → its groups: one algorithm on one environment, in every setting."""
    found: dict[str, list[int]] = {}
    for index, group in enumerate(groups):
        found.setdefault(f"{group.algorithm} on {group.environment}", []).append(index)
    return found


def task_rows(
    members: Sequence[int], summaries: Sequence[pl.DataFrame], groups: Sequence[Group], name: str
) -> list[Json]:
    """Rows of `charts.side_by_side`, frameworks together."""
    rows = [
        (row, groups[index].setting)
        for index in members
        for row in summaries[index].iter_rows(named=True)
        if row[f"{name} middle"] is not None
    ]
    # A stable sort: a contestant's settings stay in their order.
    rows.sort(key=lambda item: item[0]["contestant"])
    return [
        {
            "contestant": row["contestant"],
            "label": f"{row['contestant']}, {setting}" if setting else row["contestant"],
            "order": order,
            **spread(row, name, "value"),
            "text": number(row[f"{name} middle"]),
        }
        for order, (row, setting) in enumerate(rows)
    ]


def summary(group: Group, use: pl.DataFrame) -> pl.DataFrame:
    """Per contestant of a group the median and quartiles of every measure, over its finished trials."""
    done = group.trials.filter(pl.col("status") == "done").join(use, on="trial", how="left")
    figures = [
        measure.value.quantile(share, "linear").alias(f"{measure.name} {place}")
        for measure in (*AGAINST_AXIS, *SIDE_BY_SIDE)
        for place, share in (("low", 0.25), ("middle", 0.5), ("high", 0.75))
    ]
    return done.group_by("contestant", maintain_order=True).agg(figures)


def significant(value: float) -> float:
    """Four digits: more than a chart can show."""
    return float(f"{value:.4g}")
