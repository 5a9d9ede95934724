"""Advice: which contestant to take for a goal, how sure that is, and where the choice changes."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from rldyno.answers.break_even import RunCosts, RunLengths, run_costs, run_lengths
from rldyno.answers.comparison import SEED, badness, clearly_different, metric_samples, with_ratios
from rldyno.answers.groups import (
    MAIN_METRICS,
    THRESHOLD,
    THROUGHPUT,
    Group,
    MetricValue,
    Row,
    axis_words,
    run_values,
    setting_label,
)
from rldyno.columns import Column
from rldyno.errors import Problem
from rldyno.proofs.certificate import STALE
from rldyno.results.columns import by_any_name, goals
from rldyno.results.load import Results
from rldyno.stats.bootstrap import ENOUGH_RUNS, Estimate, Floats, estimate_of
from rldyno.stats.equivalence import DIFFERENT
from rldyno.stats.tasks import probability_of_improvement

# At this noise score a trial lost a quarter of its CPU time; half such trials spoil a comparison.
TOO_NOISY = 0.25
HIGH, MODERATE, LOW = "high", "moderate", "low"


@dataclass(frozen=True)
class Pick:
    """The best contestant of one group for a metric, compared with the runner-up."""

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
    """Why no advice is given, and what to do."""

    group: Group
    why: str
    instead: str
    """What to do, in a sentence."""


@dataclass(frozen=True)
class Advice:
    """For one algorithm on one environment; a pick or a refusal for each setting of it."""

    task: str
    goal: str
    metric: Column
    picks: tuple[Pick, ...]
    refusals: tuple[Refusal, ...]
    lengths: tuple[tuple[Pick, RunLengths], ...]
    by_axis: tuple[ChoiceByAxis, ...]


def advise(
    results: Results,
    groups: Sequence[Group],
    goal: str | None = None,
    algorithm: str | None = None,
    environment: str | None = None,
    costs_of: Callable[[Group], list[RunCosts]] | None = None,
) -> tuple[Advice, ...]:
    """One advice per task. Without a goal: time to the threshold where there is one, else throughput."""
    if goal is not None:
        goal_metric(goal)
    groups = chosen(groups, algorithm, environment)
    tasks: dict[str, list[Group]] = {}
    for group in groups:
        tasks.setdefault(f"{group.algorithm} on {group.environment}", []).append(group)
    return tuple(advise_task(results, task, members, goal, costs_of) for task, members in tasks.items())


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
    costs_of: Callable[[Group], list[RunCosts]] | None = None,
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
        by_length = run_lengths((costs_of or group_run_costs)(pick.group))
        if by_length is not None:
            lengths.append((pick, by_length))
    return Advice(
        task=task,
        goal=name,
        metric=metric,
        picks=picks,
        refusals=tuple(item for item in found if isinstance(item, Refusal)),
        lengths=tuple(lengths),
        by_axis=choices_by_axis(
            [(pick.group.axes, pick.contestant, pick.confidence != LOW) for pick in picks]
        ),
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
        why = f"{metric.words} could not be measured" + (f": {reason}" if reason else "")
        return Refusal(group, why, UNREADABLE)
    if not math.isfinite(badness(best, metric)):
        why = f"no contestant reached a mean return of {group.stop_return:g} within the budget"
        return Refusal(group, why, f"Give the study a larger [budget], then: {again(directory)}")
    return Pick(
        group, metric, best, second, confidence(best, second, metric), wins(group, best, second, metric, rng)
    )


UNREADABLE = (
    "Run the same study where it can be measured (energy counters may need root), or choose another --goal."
)


def with_metric(results: Results, group: Group, metric: Column, rng: np.random.Generator) -> Group:
    """The group with a figure of this metric for each contestant that has one."""
    runs = group.runs
    samples = {name: metric_samples(done, [metric], rng).get(metric.name) for name, done in runs.items()}
    rows = [
        replace(row, figures=row.figures | {metric.name: MetricValue(estimate_of(found))})
        if (found := samples[row.contestant]) is not None
        else row
        for row in group.rows
    ]
    return replace(group, rows=tuple(with_ratios(rows, runs, samples, metric, results.manifest.adaptive)))


def refused(directory: Path, group: Group, metric: Column) -> Refusal | None:
    """Uncertified, unequal, noisy or too little data gets no advice."""
    ranked = group.ranked
    if len(ranked) < 2:
        return too_few_ranked(directory, group)
    if metric is THRESHOLD and group.stop_return is None:
        return Refusal(
            group,
            "the study has no stop rule, so it is not known when a run has learned",
            "Use --goal throughput, or add a stop rule to [budget] of the study: "
            f"stop = {{ return = 475, episodes = 20 }}, then: {again(directory)}",
        )
    fewest = min(row.done for row in ranked)
    if fewest < 2:
        return Refusal(group, "with one seed the spread is unknown", more_seeds(directory, ENOUGH_RUNS))
    scores = np.concatenate([group.runs[row.contestant].known("noise_score") for row in ranked])
    noisy = int((scores > TOO_NOISY).sum())
    if noisy > len(scores) / 2:
        return Refusal(
            group,
            f"too noisy: {noisy} of {len(scores)} trials ran on a disturbed machine "
            f"(noise score above {TOO_NOISY:g})",
            f"Run it again while the machine is idle (`rldyno doctor` shows other load): {again(directory)}",
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
        rerun = f"To prove what has run: rldyno run {directory / 'study.toml'} --out {directory}"
        instead = f"Run: rldyno verify {' '.join(unproven)}, then: {again(directory)}" if stale else rerun
    elif unlike:
        instead = f"Add contestants that learn alike to the study, then: {again(directory)}"
    else:
        instead = f"With two contestants or more: rldyno run {directory / 'study.toml'} --out {directory}"
    return Refusal(group, f"{count} can be ranked" + (f" ({why})" if why else ""), instead)


def again(directory: Path) -> str:
    return f"rldyno run {directory / 'study.toml'} --out {directory}-again"


def more_seeds(directory: Path, seeds: int) -> str:
    study = directory / "study.toml"
    return f"Set seeds = {seeds} in {study}, then: rldyno run {study} --out {directory} --amend"


def confidence(best: Row, second: Row, metric: Column) -> str:
    """High: a clear difference on enough seeds; moderate: on fewer; low: it may be chance."""
    figure = second.figures.get(metric.name)
    if figure is not None and not clearly_different(figure):
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


def group_run_costs(group: Group) -> list[RunCosts]:
    """Of the ranked contestants; the same for every question, so that its answers agree."""
    ranked = {row.contestant: group.runs[row.contestant] for row in group.ranked}
    return run_costs(ranked, np.random.default_rng(SEED))


Choice = tuple[dict[str, Any], str, bool]
"""Axes of a group, the contestant picked there, whether the difference is clear."""


@dataclass(frozen=True)
class ChoiceByAxis:
    """Picks along one axis, everything else the same."""

    axis: str
    setting: str
    """The other axes that vary: `2 cores`."""
    stretches: tuple[tuple[tuple[Any, ...], str, bool], ...]
    """(neighbouring levels, their pick, whether the difference is clear at all of them)."""

    @property
    def changes(self) -> bool:
        return len(self.stretches) > 1

    @property
    def words(self) -> str:
        where = f" ({self.setting})" if self.setting else ""
        parts = [
            f"{levels_words(self.axis, levels)} `{pick}`" + ("" if clear else ", which may be chance")
            for levels, pick, clear in self.stretches
        ]
        if self.changes:
            return f"The choice changes with {axis_name(self.axis)}{where}: {'; '.join(parts)}."
        levels, pick, clear = self.stretches[0]
        doubt = "" if clear else ", but the difference is not clear everywhere"
        return f"`{pick}` stays the choice for {levels_words(self.axis, levels)}{where}{doubt}."


def choices_by_axis(choices: Sequence[Choice]) -> tuple[ChoiceByAxis, ...]:
    """One per axis that varies and per setting of the other axes."""
    if len(choices) < 2:
        return ()
    axes = [name for name in choices[0][0] if len({key_of(axes[name]) for axes, _, _ in choices}) > 1]
    found = []
    for axis in axes:
        others = [name for name in axes if name != axis]
        lines: dict[str, list[Choice]] = {}
        for choice in choices:
            lines.setdefault(json.dumps([choice[0][name] for name in others], default=str), []).append(choice)
        found += [
            ChoiceByAxis(axis, setting_label(line[0][0], others), stretches(axis, line))
            for line in lines.values()
            if len(line) > 1
        ]
    return tuple(found)


def stretches(axis: str, line: Sequence[Choice]) -> tuple[tuple[tuple[Any, ...], str, bool], ...]:
    ordered = sorted(line, key=lambda choice: key_of(choice[0][axis]))
    merged: list[tuple[list[Any], str, bool]] = []
    for axes, pick, clear in ordered:
        if merged and merged[-1][1] == pick:
            levels, _, sure = merged.pop()
            merged.append(([*levels, axes[axis]], pick, sure and clear))
        else:
            merged.append(([axes[axis]], pick, clear))
    return tuple((tuple(levels), pick, clear) for levels, pick, clear in merged)


def key_of(level: Any) -> tuple[bool, float, str]:
    """Numbers in their order, `[64, 64]` by its size, then texts; none comes first."""
    if isinstance(level, str) and level.startswith("["):
        widths = json.loads(level)
        flat = [width for width in widths if isinstance(width, int)]
        return (True, float(sum(flat)), level)
    number = float(level) if isinstance(level, int | float) else 0.0
    return (level is not None, number, "" if isinstance(level, int | float) else str(level))


def levels_words(axis: str, levels: Sequence[Any]) -> str:
    if len(levels) == 1:
        return axis_words(axis, levels[0])
    return f"{axis_name(axis)} {', '.join(map(str, levels[:-1]))} and {levels[-1]}"


def axis_name(axis: str) -> str:
    return {"max_episode_steps": "the limit of episodes"}.get(axis, axis.removeprefix("hyper."))
