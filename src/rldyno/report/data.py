"""The data of every chart, as rows that HTML, pictures and CSV files share."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from rldyno.answers.groups import Group
from rldyno.answers.limits import Distance
from rldyno.report.charts import STARTUP_WORDS
from rldyno.report.curves import Band, GroupCurves
from rldyno.report.lengths import run_length_rows
from rldyno.report.limits import distance_rows
from rldyno.report.measures import significant
from rldyno.report.memory import split_rows
from rldyno.results.load import Results
from rldyno.text.numbers import factor, interval, number
from rldyno_rig import schema

Json = dict[str, Any]
# More trials than this make no better picture of the noise; the worst are kept.
NOISE_POINTS = 1500


def group_data(
    group: Group,
    curves: GroupCurves,
    phases: Mapping[str, Sequence[Band]],
    distances: Sequence[Distance],
) -> dict[str, Json]:
    """Data of every chart of a group that has any, by the chart's name."""
    data = {
        f"answer-{group.primary.key}": {"rows": answer_rows(group)},
        "learning-steps": packed(curves.steps, group.stop_return),
        "learning-episodes": packed(curves.episodes, group.stop_return),
        "learning-time": packed(curves.time, group.stop_return),
        "cpu": packed(curves.cpu),
        "memory": packed(curves.memory),
        "memory-split": {"rows": split_rows(group)},
        "gpu": packed(curves.gpu),
        "gpu-memory": packed(curves.gpu_memory),
        "power": packed(curves.power),
        "distance": {"rows": distance_rows(distances)},
        "phases": {"rows": phase_rows(group)},
        **{f"phase-{phase}": packed(bands) for phase, bands in phases.items()},
        "startup": {"rows": startup_rows(group)},
        "break-even": {"rows": run_length_rows(group)},
    }
    return {name: held for name, held in data.items() if held.get("rows") or held.get("bands")}


def packed(bands: Sequence[Band], threshold: float | None = None) -> Json:
    """Bands as columns per contestant, `{name: {x: […], y: […], …}}`, and the threshold."""
    return {
        "bands": {
            band.contestant: {
                "x": digits(band.x),
                "y": digits(band.y),
                "low": digits(band.low),
                "high": digits(band.high),
            }
            for band in bands
        },
        "threshold": threshold,
    }


def digits(values: np.ndarray[Any, np.dtype[np.float64]]) -> list[float]:
    """`significant` of each."""
    return [float(f"{value:.4g}") for value in values.tolist()]


def unpacked(data: Json) -> list[Json]:
    """The rows that a chart draws; script.js does the same."""
    if "rows" in data:
        return list(data["rows"])
    rows: list[Json] = [] if data["threshold"] is None else [{"threshold": data["threshold"]}]
    for contestant, columns in data["bands"].items():
        points = zip(*(columns[name] for name in ("x", "y", "low", "high")), strict=True)
        rows += [
            {"contestant": contestant, "x": x, "y": y, "low": low, "high": high} for x, y, low, high in points
        ]
    return rows


def answer_rows(group: Group) -> list[Json]:
    """Rows of the answer's picture: what can be drawn of the primary metric."""
    rows = []
    for order, row in enumerate(group.rows):
        figure = row.figures.get(group.primary.name)
        if figure is None or math.isinf(figure.estimate.point):
            continue
        scale = group.primary.scale
        estimate = figure.estimate
        bounded = estimate.high is not None and math.isfinite(estimate.high)
        words = [f"{number(estimate.point * scale)} {group.primary.unit}", interval(estimate, scale)]
        rows.append(
            {
                "contestant": row.contestant,
                "order": order,
                "ranked": row.unranked is None,
                "value": significant(estimate.point * scale),
                "low": significant(estimate.low * scale) if bounded and estimate.low is not None else None,
                "high": significant(estimate.high * scale) if bounded and estimate.high is not None else None,
                "text": " ".join(filter(None, words)),
            }
        )
    return rows


def overview_rows(groups: Sequence[Group]) -> list[Json]:
    """Every ranked contestant of every comparison against its best, and their geometric mean."""
    ratios: dict[str, list[tuple[str, float]]] = {}
    for group in groups:
        for row in group.ranked:
            figure = row.figures.get(group.primary.name)
            if figure is not None and figure.ratio is not None:
                ratios.setdefault(row.contestant, []).append((group.label, figure.ratio.point))
    means = {
        name: math.exp(np.mean([math.log(times) for _, times in found])) for name, found in ratios.items()
    }
    rows: list[Json] = []
    for order, name in enumerate(sorted(ratios, key=lambda name: (-len(ratios[name]), means[name]))):
        found = ratios[name]
        missing = f", in {len(found)} of {len(groups)}" if len(found) < len(groups) else ""
        base = {"contestant": name, "order": order}
        rows.append(
            base
            | {
                "comparison": None,
                "value": significant(means[name]),
                "text": f"{factor(means[name])}{missing}",
            }
        )
        rows += [
            base | {"comparison": label, "value": significant(times), "text": factor(times)}
            for label, times in found
        ]
    return rows


def phase_rows(group: Group) -> list[Json]:
    """Mean seconds of each phase and its share of the training loop."""
    return part_rows(group, {phase: f"phase_{phase}_s" for phase in schema.PHASES})


def startup_rows(group: Group) -> list[Json]:
    return part_rows(group, {STARTUP_WORDS[part]: f"startup_{part}_s" for part in schema.STARTUP})


def part_rows(group: Group, columns: Mapping[str, str]) -> list[Json]:
    done = group.trials.filter(pl.col("status") == "done")
    means = done.group_by("contestant").agg(pl.col(list(columns.values())).mean())
    by_contestant = {row["contestant"]: row for row in means.iter_rows(named=True)}
    rows = []
    for order, row in enumerate(row for row in group.rows if row.contestant in by_contestant):
        values = by_contestant[row.contestant]
        total = sum(values[column] or 0 for column in columns.values())
        if not total:
            continue
        rows += [
            {
                "contestant": row.contestant,
                "order": order,
                "part": part,
                "part_order": index,
                "seconds": significant(values[column]),
                "share": significant(values[column] / total),
                "text": f"{number(values[column])} s, {values[column] / total:.1%}",
            }
            for index, (part, column) in enumerate(columns.items())
            if values[column] is not None
        ]
    return rows


def noise_rows(results: Results) -> list[Json]:
    """Trials in the order they ran."""
    done = results.trials.filter(pl.col("status") == "done", pl.col("noise_score").is_not_null())
    ordered = done.sort("started_at", maintain_order=True).with_row_index("x", offset=1)
    kept = ordered.sort("noise_score", descending=True).head(NOISE_POINTS).sort("x")
    return [
        {"contestant": contestant, "trial": trial, "x": x, "y": significant(score)}
        for contestant, trial, x, score in kept.select("contestant", "trial", "x", "noise_score").iter_rows()
    ]
