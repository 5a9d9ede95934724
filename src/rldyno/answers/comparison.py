"""Contestants compared among trials that differ in nothing else: figures, ratios to the best, chance."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

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
from rldyno.answers.learned import TOO_FEW, nobody_learned
from rldyno.answers.learning import group_parity
from rldyno.answers.pairs import EQUAL, Scale, compare_pairs, seeded, seeds_missing
from rldyno.answers.ranking import EXPECTED, with_expected
from rldyno.answers.runs import Runs, by_contestant
from rldyno.answers.trust import Trust, trust_of
from rldyno.columns import Column
from rldyno.proofs.certificate import STATES
from rldyno.records.manifest import AdaptiveSeeds
from rldyno.records.status import DONE
from rldyno.records.status import FAILED as TRIAL_FAILED
from rldyno.results.load import PROCESSOR, Results
from rldyno.stats.censored import missed_words
from rldyno.stats.distributions import ALPHA
from rldyno.stats.estimates import Estimate, estimate_of, ratio_estimate
from rldyno.stats.significance import all_pairs

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
Judge = Callable[[Results, Group, Column], Trust]


def compare(results: Results) -> tuple[Group, ...]:
    """One group per algorithm × environment × setting that has trials, in the order of the plan."""
    varying = varying_axes(results)
    return tuple(compare_group(results, axes, varying, trials) for axes, trials in group_frames(results))


def group_frames(results: Results) -> list[tuple[dict[str, Any], pl.DataFrame]]:
    """Trials that may be compared. Those that no machine has run yet belong to every kind of machine."""
    parts = results.trials.partition_by(results.axes, as_dict=True, maintain_order=True)
    groups = [(dict(zip(results.axes, key, strict=True)), trials) for key, trials in parts.items()]
    if PROCESSOR not in results.axes:
        return groups
    kinds: dict[str, list[tuple[dict[str, Any], pl.DataFrame]]] = {}
    for axes, trials in groups:
        others = {name: value for name, value in axes.items() if name != PROCESSOR}
        kinds.setdefault(json.dumps(others, default=str), []).append((axes, trials))
    return [group for alike in kinds.values() for group in _with_unrun(alike)]


def _with_unrun(
    alike: list[tuple[dict[str, Any], pl.DataFrame]],
) -> list[tuple[dict[str, Any], pl.DataFrame]]:
    ran = [(axes, trials) for axes, trials in alike if axes[PROCESSOR] is not None]
    unrun = [trials for axes, trials in alike if axes[PROCESSOR] is None]
    return [(axes, pl.concat([trials, *unrun])) for axes, trials in ran] or alike


def varying_axes(results: Results) -> list[str]:
    return [name for name in results.axes if results.trials[name].n_unique() > 1]


def compare_group(
    results: Results, axes: dict[str, Any], varying: Sequence[str], trials: pl.DataFrame
) -> Group:
    runs = by_contestant(trials)
    trials_of: dict[str, list[Json]] = {name: [] for name in runs}
    for trial in trials.select(ROW_COLUMNS).iter_rows(named=True):
        trials_of[trial["contestant"]].append(trial)
    rows = [contestant_row(trials_of[name], done) for name, done in runs.items()]
    parity = group_parity(results, runs, {row.contestant for row in rows if row.unranked is None})
    rows = [replace(row, parity=parity.get(row.contestant)) for row in rows]
    unlearned = nobody_learned(results, runs)
    group = Group(
        axes=axes,
        setting=setting_label(axes, varying),
        stop_return=trials.select(pl.max("stop_return")).item(),
        stop_episodes=trials.select(pl.max("stop_episodes")).item(),
        rows=tuple(rows),
        trials=trials,
        runs=runs,
        unlearned=None if unlearned == TOO_FEW else unlearned,
        few_episodes=unlearned == TOO_FEW,
    )
    runs, shared = with_expected(runs, {row.contestant: runs[row.contestant] for row in group.ranked})
    if shared is not None:
        group = with_metric(results, replace(group, runs=runs, shared_steps=shared), EXPECTED)
    for metric in (metric for metric in group.metrics if metric.name not in group.trusts):
        group = compared_by(results, group, metric)
    return in_order(group)


def in_order(group: Group) -> Group:
    """Ranked contestants first, the best first; in the order of the plan where no ranking may be named."""

    def place(row: Row) -> tuple[bool, bool, bool, float, str]:
        known = (row.unranked is not None, row.absent is not None, row.guest)
        return (
            (*known, 0.0, "") if group.trust.barred else (*known, badness(row, group.primary), row.contestant)
        )

    return replace(group, rows=tuple(sorted(group.rows, key=place)))


def compared_by(results: Results, group: Group, metric: Column, judge: Judge = trust_of) -> Group:
    """The group with its figures of one metric compared with the best, unless that is barred.

    Nobody is marked as the best where the second is equal, or may be better by chance.
    """
    compared = replace(group, rows=tuple(with_ratios(group, metric, results.manifest.adaptive)))
    trust = judge(results, compared, metric)
    if trust.barred:
        compared = group
    elif trust.tied:
        compared = replace(compared, rows=tuple(unmarked(row, metric) for row in compared.rows))
    return replace(compared, trusts={**group.trusts, metric.name: trust})


def unmarked(row: Row, metric: Column) -> Row:
    if metric.name not in row.figures:
        return row
    figure = replace(row.figures[metric.name], best=False)
    return replace(row, figures={**row.figures, metric.name: figure})


def with_metric(results: Results, group: Group, metric: Column) -> Group:
    """The group with a metric that not every comparison has."""
    rows = (
        replace(row, figures=row.figures | figures_of(group.runs[row.contestant], [metric]))
        for row in group.rows
    )
    return compared_by(results, replace(group, rows=tuple(rows)), metric)


def contestant_row(trials: Sequence[Json], done: Runs) -> Row:
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
        key=lambda trial: (
            STATES.index(trial["certificate"]),
            trial["certificate_detail"] is not None,
        ),
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
        figures=figures_of(done, MAIN_METRICS),
    )


def reached(done: Runs) -> int:
    return int((done["threshold_reached"] > 0).sum())


def figures_of(done: Runs, metrics: Iterable[Column]) -> dict[str, MetricValue]:
    """By column; what no run has is left out."""
    found = {metric.name: figure_of(done, metric) for metric in metrics}
    return {name: figure for name, figure in found.items() if figure is not None}


def figure_of(done: Runs, metric: Column) -> MetricValue | None:
    """One metric of a contestant's finished runs; None when no run has it."""
    values = run_values(done, metric)
    if not len(values):
        return None
    note = missed_words(reached(done), len(values)) if metric is THRESHOLD else None
    return MetricValue(estimate_of(values), note=note)


def with_ratios(
    group: Group, metric: Column, rule: AdaptiveSeeds | None, among: Container[str] | None = None
) -> list[Row]:
    """Rows with their figures compared with the best; `rule` where seeds were added after interim checks.

    `among`: the best of these contestants is meant; chance is corrected over all pairs all the same.
    """
    rows, runs = list(group.rows), group.runs
    candidates = [row for row in rows if row.unranked is None and metric.name in row.figures]
    chosen = [row for row in candidates if among is None or row.contestant in among]
    best = min(chosen, key=lambda row: badness(row, metric), default=None)
    if best is None or not math.isfinite(badness(best, metric)):
        return rows
    worse = {
        row.contestant: replace(
            row.figures[metric.name],
            ratio=times_worse(runs[row.contestant], runs[best.contestant], metric),
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
    found = all_pairs(values)
    tested = {}
    for name, figure in figures.items():
        chance = found.get(frozenset((name, best)))
        if chance is None:
            tested[name] = figure
            continue
        decided = chance.p <= ALPHA
        more = None if decided else seeds_missing(values[name], values[best], chance.alpha)
        tested[name] = replace(figure, chance=chance.p, more_seeds=more)
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


def times_worse(done: Runs, best: Runs, metric: Column) -> Estimate | None:
    """From the finished runs of two contestants; None where a figure is missing, infinite or not positive."""
    mine, theirs = run_values(done, metric), run_values(best, metric)
    if not len(mine) or not len(theirs):
        return None
    return ratio_estimate(theirs, mine) if metric.more_is_better else ratio_estimate(mine, theirs)
