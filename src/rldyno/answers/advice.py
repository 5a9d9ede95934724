"""Advice: which contestant to take for a goal, how sure that is, and where the choice flips."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from rldyno.answers.breakeven import Course, RunLengths, courses, run_lengths
from rldyno.answers.duels import rule_of
from rldyno.answers.flips import Flip, axis_flips
from rldyno.answers.groups import (
    MAIN_METRICS,
    THRESHOLD,
    THROUGHPUT,
    Figure,
    Group,
    Row,
    run_values,
)
from rldyno.answers.ratios import badness, told_apart, with_ratios
from rldyno.answers.table import SEED, metric_samples
from rldyno.columns import Column
from rldyno.errors import Problem
from rldyno.results.columns import by_any_name, goals
from rldyno.results.load import STALE, Results
from rldyno.stats.bootstrap import ENOUGH_RUNS, Estimate, Floats, estimate_of
from rldyno.stats.equivalence import DIFFERENT
from rldyno.stats.tasks import probability_of_improvement

# At this noise score a trial lost a quarter of its CPU time; half such trials spoil a comparison.
TOO_NOISY = 0.25
HIGH, MODERATE, LOW = "high", "moderate", "low"


@dataclass(frozen=True)
class Pick:
    """The best contestant of one group for a metric, held against the runner-up."""

    group: Group
    metric: Column
    best: Row
    runner_up: Row
    confidence: str
    wins: Estimate
    """Probability that a run of the best beats a run of the runner-up."""

    @property
    def contestant(self) -> str:
        return self.best.contestant

    @property
    def ratio(self) -> Estimate | None:
        return self.runner_up.figures[self.metric.name].ratio


@dataclass(frozen=True)
class Refusal:
    """Why no advice is given, and what to run instead."""

    group: Group
    why: str
    instead: str


@dataclass(frozen=True)
class Advice:
    """For one algorithm on one environment; a pick or a refusal for each setting of it."""

    task: str
    goal: str
    picks: tuple[Pick, ...]
    refusals: tuple[Refusal, ...]
    lengths: tuple[tuple[Pick, RunLengths], ...]
    flips: tuple[Flip, ...]


def advise(
    results: Results,
    groups: Sequence[Group],
    goal: str | None = None,
    algorithm: str | None = None,
    environment: str | None = None,
    courses_of: Callable[[Group], list[Course]] | None = None,
) -> tuple[Advice, ...]:
    """One advice per task. Without a goal: time to the threshold where there is one, else throughput."""
    if goal is not None:
        goal_metric(goal)
    groups = chosen(groups, algorithm, environment)
    tasks: dict[str, list[Group]] = {}
    for group in groups:
        tasks.setdefault(f"{group.algorithm} on {group.environment}", []).append(group)
    return tuple(advise_task(results, task, members, goal, courses_of) for task, members in tasks.items())


def chosen(groups: Sequence[Group], algorithm: str | None, environment: str | None) -> list[Group]:
    for name, wanted in (("algorithm", algorithm), ("environment", environment)):
        there = sorted({str(group.axes[name]) for group in groups})
        if wanted is not None and wanted not in there:
            raise Problem(f"no trial has {name} {wanted}", fix=f"the results have: {', '.join(there)}")
    return [
        group
        for group in groups
        if algorithm in (None, group.axes["algorithm"]) and environment in (None, group.axes["environment"])
    ]


def advise_task(
    results: Results,
    task: str,
    groups: Sequence[Group],
    goal: str | None = None,
    courses_of: Callable[[Group], list[Course]] | None = None,
) -> Advice:
    rng = np.random.default_rng(SEED)
    name = goal or ("time" if groups[0].primary is THRESHOLD else "throughput")
    metric = goal_metric(name)
    if metric not in MAIN_METRICS:
        groups = [with_metric(results, group, metric, rng) for group in groups]
    found = [judge(results, group, metric, rng) for group in groups]
    picks = tuple(item for item in found if isinstance(item, Pick))
    lengths = []
    for pick in picks if metric in (THRESHOLD, THROUGHPUT) else ():
        by_length = run_lengths((courses_of or group_courses)(pick.group))
        if by_length is not None:
            lengths.append((pick, by_length))
    return Advice(
        task=task,
        goal=name,
        picks=picks,
        refusals=tuple(item for item in found if isinstance(item, Refusal)),
        lengths=tuple(lengths),
        flips=axis_flips([(pick.group.axes, pick.contestant, pick.confidence != LOW) for pick in picks]),
    )


def goal_metric(goal: str) -> Column:
    """Any figure that has a better direction, by its column or a shorter name."""
    known = by_any_name(goals())
    if goal not in known:
        names = ", ".join(alias for metric in goals() for alias in metric.aliases)
        raise Problem(f"unknown goal '{goal}'", fix=f"use one of {names}, or a column of the result table")
    return known[goal]


def judge(results: Results, group: Group, metric: Column, rng: np.random.Generator) -> Pick | Refusal:
    directory = results.directory
    refusal = refused(directory, group, metric)
    if refusal is not None:
        return refusal
    ranked = sorted(group.ranked, key=lambda row: badness(row, metric))
    best, second = ranked[:2]
    if metric.name not in second.figures:
        reason = results.why_empty(metric.name, group.trials["trial"])
        why = f"{metric.words} is not readable here" + (f": {reason}" if reason else "")
        return Refusal(group, why, UNREADABLE)
    if not math.isfinite(badness(best, metric)):
        why = f"no contestant reached a mean return of {group.stop_return:g} within the budget"
        return Refusal(group, why, f"a larger [budget] in the study, then: {again(directory)}")
    return Pick(
        group, metric, best, second, confidence(best, second, metric), wins(group, best, second, metric, rng)
    )


UNREADABLE = "the same study where energy counters can be read, as root if need be, or ask for another --goal"


def with_metric(results: Results, group: Group, metric: Column, rng: np.random.Generator) -> Group:
    """The group with a figure of this metric for each contestant that has one."""
    runs = group.runs
    samples = {name: metric_samples(done, [metric], rng).get(metric.name) for name, done in runs.items()}
    rows = [
        replace(row, figures=row.figures | {metric.name: Figure(estimate_of(found))})
        if (found := samples[row.contestant]) is not None
        else row
        for row in group.rows
    ]
    return replace(group, rows=tuple(with_ratios(rows, runs, samples, metric, rule_of(results.manifest))))


def refused(directory: Path, group: Group, metric: Column) -> Refusal | None:
    """Uncertified, unequal, noisy or too little data gets no advice."""
    ranked = group.ranked
    if len(ranked) < 2:
        return too_few_ranked(directory, group)
    if metric is THRESHOLD and group.stop_return is None:
        return Refusal(
            group,
            "the study has no stop rule, so nothing says when a run has learned",
            "--goal throughput, or a stop rule in [budget] of the study: "
            f"stop = {{ return = 475, episodes = 20 }}, then: {again(directory)}",
        )
    fewest = min(row.done for row in ranked)
    if fewest < 2:
        return Refusal(group, "one seed shows no spread", more_seeds(directory, ENOUGH_RUNS))
    scores = np.concatenate([group.runs[row.contestant].known("noise_score") for row in ranked])
    noisy = int((scores > TOO_NOISY).sum())
    if noisy > len(scores) / 2:
        return Refusal(
            group,
            f"too noisy: {noisy} of {len(scores)} trials ran on a disturbed machine "
            f"(noise score above {TOO_NOISY:g})",
            f"it again while nothing else works on the machine (`rldyno doctor` shows how quiet it is): "
            f"{again(directory)}",
        )
    return None


def too_few_ranked(directory: Path, group: Group) -> Refusal:
    outside = [row for row in group.rows if row.unranked is not None]
    why = "; ".join(f"`{row.contestant}`: {row.unranked}" for row in outside)
    count = "nothing" if not group.ranked else f"only `{group.ranked[0].contestant}`"
    unproven = [row.contestant for row in outside if row.done and not row.failed and not row.certified]
    unlike = [row for row in outside if row.parity is not None and row.parity.state == DIFFERENT]
    if unproven:
        stale = any(row.certificate == STALE for row in outside)
        rerun = f"rldyno run {directory / 'study.toml'} --out {directory}, which proves what has run"
        instead = f"rldyno verify {' '.join(unproven)}, then: {again(directory)}" if stale else rerun
    elif unlike:
        instead = f"a study with more contestants that learn alike, then: {again(directory)}"
    else:
        instead = f"rldyno run {directory / 'study.toml'} --out {directory}, with two contestants or more"
    return Refusal(group, f"{count} can be ranked" + (f" ({why})" if why else ""), instead)


def again(directory: Path) -> str:
    return f"rldyno run {directory / 'study.toml'} --out {directory}-again"


def more_seeds(directory: Path, seeds: int) -> str:
    study = directory / "study.toml"
    return f"with seeds = {seeds} in {study}: rldyno run {study} --out {directory} --amend"


def confidence(best: Row, second: Row, metric: Column) -> str:
    """High: beyond chance on enough seeds; moderate: beyond chance on fewer; low: it may be chance."""
    figure = second.figures.get(metric.name)
    if figure is not None and not told_apart(figure):
        return LOW
    return HIGH if min(best.done, second.done) >= ENOUGH_RUNS else MODERATE


def wins(group: Group, best: Row, second: Row, metric: Column, rng: np.random.Generator) -> Estimate:
    """A run that never reached the threshold loses to every one that did."""
    sign = 1.0 if metric.more_is_better else -1.0

    def scores(row: Row) -> Floats:
        values = run_values(group.runs[row.contestant], metric)
        if values.ndim == 2:
            values = np.where(values[:, 1] > 0, values[:, 0], np.inf)
        return sign * values

    return probability_of_improvement([scores(best)], [scores(second)], rng)


def group_courses(group: Group) -> list[Course]:
    """Of the ranked contestants; the same for every question, so that its answers agree."""
    ranked = {row.contestant: group.runs[row.contestant] for row in group.ranked}
    return courses(ranked, np.random.default_rng(SEED))
