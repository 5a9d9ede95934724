"""Contestants compared among trials that differ in nothing else: figures, ratios to the best, chance."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from rldyno.answers.groups import (
    MAIN_METRICS,
    THRESHOLD,
    Group,
    MetricValue,
    Row,
    badness,
    run_values,
    setting_label,
)
from rldyno.answers.learned import nobody_learned
from rldyno.answers.learning import group_parity
from rldyno.answers.pairs import EQUAL, Scale, chances, compare_pairs, seeded, seeds_missing
from rldyno.answers.ranking import EXPECTED, with_expected
from rldyno.answers.runs import Runs, by_contestant
from rldyno.answers.trust import trust_of
from rldyno.columns import Column
from rldyno.proofs.certificate import ABSENT, FAILED, STALE, VALID
from rldyno.records.manifest import AdaptiveSeeds
from rldyno.records.status import DONE
from rldyno.records.status import FAILED as TRIAL_FAILED
from rldyno.results.load import Results
from rldyno.stats.bootstrap import (
    Estimate,
    Resampler,
    Sample,
    estimate_of,
    interquartile_mean,
    ratio_estimate,
)
from rldyno.stats.censored import median_ratio, missed_words, survival_median
from rldyno.stats.equivalence import ALPHA

# The same results give the same intervals.
SEED = 20_260_101
# What a row says of its trials beside their figures.
ROW_COLUMNS = (
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
    trials_of: dict[str, list[Json]] = {name: [] for name in runs}
    for trial in trials.select(ROW_COLUMNS).iter_rows(named=True):
        trials_of[trial["contestant"]].append(trial)
    rows = [contestant_row(trials_of[name], done, samples[name]) for name, done in runs.items()]
    parity = group_parity(results, runs, {row.contestant for row in rows if row.unranked is None})
    rows = [replace(row, parity=parity.get(row.contestant)) for row in rows]
    group = Group(
        axes=axes,
        setting=setting_label(axes, varying),
        stop_return=trials.select(pl.max("stop_return")).item(),
        stop_episodes=trials.select(pl.max("stop_episodes")).item(),
        rows=tuple(rows),
        trials=trials,
        runs=runs,
        unlearned=nobody_learned(results, runs),
    )
    runs, shared = with_expected(runs, {row.contestant: runs[row.contestant] for row in group.ranked})
    if shared is not None:
        group = with_metric(results, replace(group, runs=runs, shared_steps=shared), EXPECTED, rng)
    for metric in (metric for metric in group.metrics if metric.name not in group.trusts):
        known = {name: found.get(metric.name) for name, found in samples.items()}
        group = compared_by(results, group, known, metric)
    return in_order(group)


def in_order(group: Group) -> Group:
    """Ranked contestants first, the best first; in the order of the plan where no ranking may be named."""

    def place(row: Row) -> tuple[bool, bool, float, str]:
        known = (row.unranked is not None, row.absent is not None)
        return (
            (*known, 0.0, "") if group.trust.barred else (*known, badness(row, group.primary), row.contestant)
        )

    return replace(group, rows=tuple(sorted(group.rows, key=place)))


def compared_by(
    results: Results, group: Group, samples: Mapping[str, Sample | None], metric: Column
) -> Group:
    """The group with its figures of one metric compared with the best, unless that is barred."""
    compared = replace(group, rows=tuple(with_ratios(group, samples, metric, results.manifest.adaptive)))
    trust = trust_of(results, compared, metric)
    kept = group if trust.barred else compared
    return replace(kept, trusts={**group.trusts, metric.name: trust})


def with_metric(results: Results, group: Group, metric: Column, rng: np.random.Generator) -> Group:
    """The group with a metric that not every comparison has."""
    samples = {
        name: metric_samples(done, [metric], rng).get(metric.name) for name, done in group.runs.items()
    }
    rows = (
        replace(
            row,
            figures=row.figures | {metric.name: figure_of(group.runs[row.contestant], found, metric.name)},
        )
        if (found := samples[row.contestant]) is not None
        else row
        for row in group.rows
    )
    return compared_by(results, replace(group, rows=tuple(rows)), samples, metric)


def contestant_row(trials: Sequence[Json], done: Runs, samples: Mapping[str, Sample]) -> Row:
    """Of a contestant's trials, with their columns ROW_COLUMNS."""
    # An interrupted trial is not the contestant's failure: it will be run again.
    failures = [
        trial
        for trial in trials
        if trial["status"] == TRIAL_FAILED and trial["reason"] not in ("interrupted", "absent")
    ]
    absences = [trial for trial in trials if trial["reason"] == "absent"]
    worst = max(
        [trial for trial in trials if trial["status"] == DONE] or trials,
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


def figure_of(done: Runs, found: Sample, metric_name: str) -> MetricValue:
    figure = MetricValue(estimate_of(found))
    if metric_name != THRESHOLD.name:
        return figure
    return replace(figure, note=missed_words(reached(done), found.n))


def estimate(done: Runs, metric: Column, rng: np.random.Generator) -> MetricValue | None:
    """One metric of a contestant's finished runs; None when no run has it."""
    found = metric_samples(done, [metric], rng).get(metric.name)
    return figure_of(done, found, metric.name) if found is not None else None


def against(done: Runs, best: Runs, metric: Column, rng: np.random.Generator) -> Estimate | None:
    """How many times worse than the best, from two contestants' finished runs."""
    mine, theirs = (metric_samples(runs, [metric], rng).get(metric.name) for runs in (done, best))
    return times_worse(mine, theirs, metric)


def with_ratios(
    group: Group, samples: Mapping[str, Sample | None], metric: Column, rule: AdaptiveSeeds | None
) -> list[Row]:
    """Rows with their figures compared with the best; `rule` where seeds were added after interim checks."""
    rows, runs = list(group.rows), group.runs
    candidates = [row for row in rows if row.unranked is None and metric.name in row.figures]
    best = min(candidates, key=lambda row: badness(row, metric), default=None)
    if best is None or not math.isfinite(badness(best, metric)):
        return rows
    worse = {
        row.contestant: replace(
            row.figures[metric.name],
            ratio=times_worse(samples[row.contestant], samples[best.contestant], metric),
        )
        for row in candidates
    }
    if rule is None:
        tested = tested_once(worse, best.contestant, runs, metric)
    else:
        tested = tested_at_any_time(worse, best.contestant, runs, metric, rule, family=len(rows))
    tested[best.contestant] = replace(
        worse[best.contestant],
        ratio=Estimate(1.0, None, None, best.done),
        first=True,
        best=not group.outdoing(metric),
    )
    return [
        replace(row, figures={**row.figures, metric.name: tested[row.contestant]})
        if row.contestant in tested
        else row
        for row in rows
    ]


def tested_once(
    figures: Mapping[str, MetricValue], best: str, runs: Mapping[str, Runs], metric: Column
) -> dict[str, MetricValue]:
    """For a number of seeds that was fixed beforehand."""
    values = {name: run_values(runs[name], metric) for name in figures}
    chance = chances(values)
    tested = {}
    for name, figure in figures.items():
        p = chance.get(frozenset((name, best)))
        open_still = p is not None and p > ALPHA
        more = seeds_missing(values[name], values[best]) if open_still else None
        tested[name] = replace(figure, chance=p, more_seeds=more)
    return tested


def tested_at_any_time(
    figures: Mapping[str, MetricValue],
    best: str,
    runs: Mapping[str, Runs],
    metric: Column,
    rule: AdaptiveSeeds,
    family: int,
) -> dict[str, MetricValue]:
    """Where seeds were added as long as comparisons were open: chance and interval hold at any number."""
    scale = scale_of(metric, rule.within)
    column = None if scale.censorable else metric.name
    found = compare_pairs({name: seeded(runs[name], column) for name in figures}, scale, family, rule.max)
    tested = {}
    for name, figure in figures.items():
        if name == best:
            continue
        duel = found[frozenset((name, best))].seen_from(best)
        ratio = figure.ratio
        if ratio is not None:
            point = ratio.point if math.isnan(duel.ratio) else duel.ratio
            ratio = Estimate(point, duel.low, duel.high, duel.seeds)
        tested[name] = replace(
            figure,
            ratio=ratio,
            chance=duel.chance,
            more_seeds=duel.more_seeds,
            equal_within=rule.within if duel.state == EQUAL else None,
        )
    return tested


def scale_of(metric: Column, within: float) -> Scale:
    return Scale(metric.more_is_better, metric is THRESHOLD, within)


def times_worse(mine: Sample | None, best: Sample | None, metric: Column) -> Estimate | None:
    if mine is None or best is None:
        return None
    if metric is THRESHOLD:
        return median_ratio(mine, best)
    over, under = (best, mine) if metric.more_is_better else (mine, best)
    return ratio_estimate(over, under) if over.point > 0 and under.point > 0 else None
