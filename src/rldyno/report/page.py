"""What the template shows, prepared: every value a string, a number or a list of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from rldyno.answers.numbers import factor, interval, number, span
from rldyno.answers.sentence import sentence
from rldyno.answers.table import CERTIFICATE_WORDS, Group, Metric, Row
from rldyno.report.charts import STARTUP_WORDS
from rldyno.report.curves import GroupCurves
from rldyno.results import ABSENT, Certificate, Results, judged
from rldyno_rig import schema

Json = dict[str, Any]


@dataclass(frozen=True)
class Cell:
    """One figure of the comparison table; `sort` orders its column."""

    text: str
    sort: float
    span: str | None = None
    ratio: str | None = None
    note: str | None = None
    best: bool = False


@dataclass(frozen=True)
class Proof:
    contestant: str
    algorithm: str
    network: str
    device: str
    state: str
    words: str
    detail: str | None
    made_at: str
    rungs: tuple[Json, ...]


def table_cell(row: Row, metric: Metric) -> Cell:
    figure = row.figures.get(metric.name)
    if figure is None:
        return Cell("–", math.inf)
    point = figure.estimate.point * metric.scale
    if math.isinf(point):
        return Cell("not reached", 1e300, note=(figure.note or "").removeprefix("not reached "))
    ratio = figure.ratio
    return Cell(
        text=number(point),
        sort=point,
        span=span(figure.estimate, metric.scale),
        ratio="best" if figure.best else factor(ratio.point) if ratio else None,
        note=figure.note,
        best=figure.best,
    )


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
            }
            for index, (part, column) in enumerate(columns.items())
            if values[column] is not None
        ]
    return rows


def band_rows(bands: pl.DataFrame, threshold: float | None = None) -> Json:
    """Bands as columns per contestant, `{name: {x: […], y: […], …}}`, and the threshold."""
    packed = {
        name: {
            column: [significant(value) for value in frame[column]] for column in ("x", "y", "low", "high")
        }
        for (name,), frame in bands.partition_by("contestant", as_dict=True, maintain_order=True).items()
    }
    return {"bands": packed, "threshold": threshold}


def group_data(group: Group, curves: GroupCurves) -> Json:
    """Data of every chart of a group, by the chart's name."""
    return {
        f"answer-{group.primary.name}": {"rows": answer_rows(group)},
        "learning-steps": band_rows(curves.steps, group.stop_return),
        "learning-episodes": band_rows(curves.episodes, group.stop_return),
        "learning-time": band_rows(curves.time, group.stop_return),
        "cpu": band_rows(curves.cpu),
        "memory": band_rows(curves.memory),
        "phases": {"rows": phase_rows(group)},
        "startup": {"rows": startup_rows(group)},
    }


def significant(value: float) -> float:
    """Four digits: more than a chart can show."""
    return float(f"{value:.4g}")


def sentence_parts(text: str) -> list[tuple[bool, str]]:
    """Text and the names in it: `(is a name, words)`, from backticks."""
    return [(index % 2 == 1, part) for index, part in enumerate(text.split("`")) if part]


def group_view(group: Group, index: int) -> Json:
    return {
        "id": f"group-{index}",
        "index": index,
        "label": group.label,
        "sentence": sentence_parts(sentence(group)),
        "answer": f"answer-{group.primary.name}",
        "drawn": bool(answer_rows(group)),
        "metrics": group.metrics,
        "stop_return": group.stop_return,
        "stop_episodes": group.stop_episodes,
        "has_runs": any(row.done for row in group.rows),
        "rows": [
            {
                "contestant": row.contestant,
                "certificate": row.certificate,
                "certified": row.certified,
                "certificate_words": CERTIFICATE_WORDS[row.certificate],
                "detail": row.certificate_detail,
                "unranked": row.unranked,
                "cells": [table_cell(row, metric) for metric in group.metrics],
                "done": row.done,
                "failed": row.failed,
                "pending": row.pending,
            }
            for row in group.rows
            if row.absent is None
        ],
    }


def proofs(results: Results) -> list[Proof]:
    """Every certificate, judged against what ran, and every contestant that ran without one."""
    found = [
        proof(certificate, results.facts.get(certificate.contestant)) for certificate in results.certificates
    ]
    known = {(item.contestant, item.algorithm) for item in found}
    ran = (
        results.trials.filter(pl.col("status") == "done").select("contestant", "algorithm", "device").unique()
    )
    bare = [
        Proof(contestant, algorithm, "", device, ABSENT, CERTIFICATE_WORDS[ABSENT], "never proven", "", ())
        for contestant, algorithm, device in ran.iter_rows()
        if (contestant, algorithm) not in known
    ]
    return sorted(found + bare, key=lambda item: (item.contestant, item.algorithm, item.network))


def proof(certificate: Certificate, facts: Json | None) -> Proof:
    state, detail = judged(certificate, facts)
    return Proof(
        contestant=certificate.contestant,
        algorithm=certificate.algorithm,
        network=certificate.network,
        device=certificate.device,
        state=state,
        words=CERTIFICATE_WORDS[state],
        detail=detail,
        made_at=certificate.made_at,
        rungs=certificate.rungs,
    )


def failures(results: Results) -> list[Json]:
    """Failed trials but for absences and interruptions; those with the same message are one entry."""
    failed = results.trials.filter(
        pl.col("status") == "failed", ~pl.col("reason").is_in(["absent", "interrupted"])
    )
    merged = failed.group_by("contestant", "reason", "message", maintain_order=True).agg(
        pl.col("trial"), pl.col("log_tail").drop_nulls().first()
    )
    return merged.to_dicts()


def absences(groups: Sequence[Group]) -> dict[str, list[tuple[bool, str]]]:
    return {
        row.contestant: sentence_parts(row.absent)
        for group in groups
        for row in group.rows
        if row.absent is not None
    }


def flat(value: Any, name: str = "") -> list[tuple[str, str]]:
    """A nested record as (name, text) pairs; the name of an inner record goes in front."""
    if isinstance(value, Mapping):
        return [pair for key, inner in value.items() for pair in flat(inner, f"{name} {key}".strip())]
    if isinstance(value, list):
        if any(isinstance(item, Mapping | list) for item in value):
            return [pair for index, item in enumerate(value, 1) for pair in flat(item, f"{name} {index}")]
        return [(name.replace("_", " "), ", ".join(map(figure, value)) or "none")]
    if name.endswith("_bytes") and isinstance(value, int):
        text = f"{value / 1e9:,.1f} GB" if value > 1e9 else f"{value / 1e6:,.1f} MB"
        return [(name.removesuffix("_bytes").replace("_", " "), text)]
    return [(name.replace("_", " "), figure(value))]


def figure(value: Any) -> str:
    if value is None:
        return "unknown"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
