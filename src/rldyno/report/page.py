"""What the template shows, prepared: every value a string, a number or a list of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from rldyno.answers.groups import CERTIFICATE_WORDS, Group, Row
from rldyno.answers.sentence import sentence
from rldyno.columns import Column
from rldyno.report.content import Scope
from rldyno.report.turns import turns_table
from rldyno.report.verdicts import overtakings_words
from rldyno.results.load import Results
from rldyno.text.numbers import factor, number, span

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


def table_cell(row: Row, metric: Column, why_empty: str | None) -> Cell:
    figure = row.figures.get(metric.name)
    if figure is None:
        return Cell("–", math.inf, note=why_empty)
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


def sentence_parts(text: str) -> list[tuple[bool, str]]:
    """Text and the names in it: `(is a name, words)`, from backticks."""
    return [(index % 2 == 1, part) for index, part in enumerate(text.split("`")) if part]


def group_view(results: Results, group: Group, scope: Scope, spelt_out: bool) -> Json:
    def cell(row: Row, metric: Column) -> Cell:
        missing = metric.name not in row.figures
        runs = group.runs[row.contestant].trials
        return table_cell(row, metric, results.why_empty(metric.name, runs) if missing else None)

    return {
        "id": scope.id,
        "charts": scope.charts,
        "algorithm": group.algorithm,
        "environment": group.environment,
        "leads": sentence_parts(overtakings_words(group) or "") if spelt_out else [],
        "turns": turns_table(group, "") if spelt_out else None,
        "label": group.label,
        "sentence": sentence_parts(sentence(group)),
        "answer": f"answer-{group.primary.key}",
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
                "cells": [cell(row, metric) for metric in group.metrics],
                "done": row.done,
                "failed": row.failed,
                "pending": row.pending,
            }
            for row in group.rows
            if row.absent is None
        ],
    }


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


def toolchains(results: Results) -> list[str]:
    """What each framework ran with, one line each: `torch: python 3.11.7, torch 2.9.0, numpy 2.3.1`."""
    lines = {
        contestant.partition(":")[0]: ", ".join(f"{name} {version}" for name, version in sets[0].items())
        for contestant, sets in results.versions.items()
    }
    return [f"{framework}: {packages}" for framework, packages in sorted(lines.items())]


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
