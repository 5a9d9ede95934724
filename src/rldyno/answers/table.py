"""The comparison table: contestants' figures against the best, among comparable trials."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from rldyno.answers.duels import rule_of
from rldyno.answers.groups import MAIN_METRICS, THRESHOLD, Figure, Group, Row, run_values, setting_label
from rldyno.answers.parity import group_parity
from rldyno.answers.ratios import badness, times_worse, with_ratios
from rldyno.answers.runs import Runs, by_contestant
from rldyno.columns import Column
from rldyno.results.load import ABSENT, FAILED, STALE, VALID, Results
from rldyno.stats.bootstrap import (
    Estimate,
    Resampler,
    Sample,
    estimate_of,
    interquartile_mean,
)
from rldyno.stats.censored import missed_words, survival_median

# The same results give the same intervals.
SEED = 20_260_101
# What a row says of its trials beside their figures.
TOLD = (
    "contestant",
    "framework",
    "mode",
    "status",
    "reason",
    "message",
    "certificate",
    "certificate_detail",
)
Json = dict[str, Any]


def compare(results: Results) -> tuple[Group, ...]:
    """One group per algorithm × environment × setting that has trials, in the order of the plan."""
    rng = np.random.default_rng(SEED)
    varying = varying_axes(results)
    return tuple(compare_group(results, axes, varying, trials, rng) for axes, trials in group_frames(results))


def group_frames(results: Results) -> list[tuple[dict[str, Any], pl.DataFrame]]:
    parts = results.trials.partition_by(results.axes, as_dict=True, maintain_order=True)
    return [(dict(zip(results.axes, key, strict=True)), trials) for key, trials in parts.items()]


def varying_axes(results: Results) -> list[str]:
    return [name for name in results.axes if results.trials[name].n_unique() > 1]


def compare_group(
    results: Results,
    axes: dict[str, Any],
    varying: Sequence[str],
    trials: pl.DataFrame,
    rng: np.random.Generator,
) -> Group:
    runs = by_contestant(trials)
    samples = {name: metric_samples(done, MAIN_METRICS, rng) for name, done in runs.items()}
    told: dict[str, list[Json]] = {name: [] for name in runs}
    for trial in trials.select(TOLD).iter_rows(named=True):
        told[trial["contestant"]].append(trial)
    rows = [contestant_row(told[name], done, samples[name]) for name, done in runs.items()]
    parity = group_parity(results, runs, {row.contestant for row in rows if row.unranked is None})
    rows = [replace(row, parity=parity.get(row.contestant)) for row in rows]
    rule = rule_of(results.manifest)
    group = Group(
        axes=axes,
        setting=setting_label(axes, varying),
        stop_return=trials.select(pl.max("stop_return")).item(),
        stop_episodes=trials.select(pl.max("stop_episodes")).item(),
        rows=(),
        trials=trials,
        runs=runs,
    )
    for metric in group.metrics:
        known = {name: found.get(metric.name) for name, found in samples.items()}
        rows = with_ratios(rows, runs, known, metric, rule)
    return replace(group, rows=tuple(sorted(rows, key=lambda row: rank_key(row, group.primary))))


def contestant_row(trials: Sequence[Json], done: Runs, samples: Mapping[str, Sample]) -> Row:
    """Of a contestant's trials, with their columns TOLD."""
    # An interrupted trial is not the contestant's failure: it will be run again.
    failures = [
        trial
        for trial in trials
        if trial["status"] == "failed" and trial["reason"] not in ("interrupted", "absent")
    ]
    absences = [trial for trial in trials if trial["reason"] == "absent"]
    worst = max(
        [trial for trial in trials if trial["status"] == "done"] or trials,
        key=lambda trial: (VALID, STALE, ABSENT, FAILED).index(trial["certificate"]),
    )
    return Row(
        contestant=worst["contestant"],
        framework=worst["framework"],
        mode=worst["mode"],
        certificate=worst["certificate"],
        certificate_detail=worst["certificate_detail"],
        done=len(done),
        reached=reached(done),
        failed=len(failures),
        pending=len(trials) - len(done) - len(failures) - len(absences),
        absent=(absences[0]["message"] or "the framework is absent") if absences else None,
        failure=(failures[0]["message"] or failures[0]["reason"]) if failures else None,
        figures={name: figure_of(done, found, name) for name, found in samples.items()},
    )


def reached(done: Runs) -> int:
    return int((done["threshold_reached"] > 0).sum())


def metric_samples(done: Runs, metrics: Iterable[Column], rng: np.random.Generator) -> dict[str, Sample]:
    """Column → its figure over the runs, which are resampled once for all; what no run has is left out."""
    samples = {}
    resampler = Resampler(rng)
    for metric in metrics:
        values = run_values(done, metric)
        if len(values):
            statistic = survival_median if metric is THRESHOLD else interquartile_mean
            samples[metric.name] = resampler.sample(values, statistic)
    return samples


def figure_of(done: Runs, found: Sample, metric_name: str) -> Figure:
    figure = Figure(estimate_of(found))
    if metric_name != THRESHOLD.name:
        return figure
    return replace(figure, note=missed_words(reached(done), found.n))


def estimate(done: Runs, metric: Column, rng: np.random.Generator) -> Figure | None:
    """One metric of a contestant's finished runs; None when no run has it."""
    found = metric_samples(done, [metric], rng).get(metric.name)
    return figure_of(done, found, metric.name) if found is not None else None


def against(done: Runs, best: Runs, metric: Column, rng: np.random.Generator) -> Estimate | None:
    """How many times worse than the best, from two contestants' finished runs."""
    mine, theirs = (metric_samples(runs, [metric], rng).get(metric.name) for runs in (done, best))
    return times_worse(mine, theirs, metric)


def rank_key(row: Row, primary: Column) -> tuple[bool, bool, float, str]:
    return (row.unranked is not None, row.absent is not None, badness(row, primary), row.contestant)
