"""Advice: which contestant to take for a goal, how sure that is, and where the choice changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from rldyno.answers.axes import AxisAnswer, ChoiceByAxis, axis_answers, choices_by_axis
from rldyno.answers.break_even import RunCosts, RunLengths, run_costs, run_lengths
from rldyno.answers.comparison import with_metric
from rldyno.answers.groups import THROUGHPUT, Group, Row, run_values
from rldyno.answers.trust import CHANCE, CLEAR, Trust, compared
from rldyno.columns import Column
from rldyno.errors import Problem
from rldyno.results.columns import by_any_name, goals
from rldyno.results.load import Results
from rldyno.stats.estimates import Estimate
from rldyno.stats.moments import Floats
from rldyno.stats.tasks import probability_of_improvement

HIGH, MODERATE, LOW = "high", "moderate", "low"
TIME = "time"


@dataclass(frozen=True)
class Pick:
    """The best contestant of one group for a metric, compared with the runner-up."""

    group: Group
    metric: Column
    best: Row
    runner_up: Row
    wins: Estimate
    """Probability that a run of the best beats a run of the runner-up."""

    @property
    def trust(self) -> Trust:
        return self.group.trusts[self.metric.name]

    @property
    def confidence(self) -> str:
        """High: nothing is objected; low: the difference may be chance; moderate: any other doubt."""
        if self.trust.about(CHANCE) is not None:
            return LOW
        return HIGH if self.trust.level == CLEAR else MODERATE

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
    trust: Trust

    @property
    def why(self) -> str:
        return self.trust.words

    @property
    def instead(self) -> str:
        return " ".join(self.trust.fixes)


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
    axes: tuple[AxisAnswer, ...]
    """What each setting does to each contestant, by speed or the time to the threshold."""


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
    found = [judge(results, group, goal) for group in groups]
    picks = tuple(item for item in found if isinstance(item, Pick))
    lengths = []
    for pick in (pick for pick in picks if pick.metric in (pick.group.primary, THROUGHPUT)):
        by_length = run_lengths((costs_of or group_run_costs)(pick.group))
        if by_length is not None:
            lengths.append((pick, by_length))
    return Advice(
        task=task,
        goal=goal or ("throughput" if groups[0].stop_return is None else TIME),
        metric=metric_of(groups[0], goal),
        picks=picks,
        refusals=tuple(item for item in found if isinstance(item, Refusal)),
        lengths=tuple(lengths),
        by_axis=choices_by_axis([(pick.group.axes, pick.contestant, not pick.trust.tied) for pick in picks]),
        axes=axis_answers(results, groups),
    )


def goal_metric(goal: str) -> Column:
    """Any figure that has a better direction, by its column or a shorter name."""
    known = by_any_name(goals())
    if goal not in known:
        names = ", ".join(alias for metric in goals() for alias in metric.aliases)
        raise Problem(f"unknown goal '{goal}'", fix=f"use one of {names}, or a column of the result table")
    return known[goal]


def metric_of(group: Group, goal: str | None) -> Column:
    """Time means that by which the group is ranked, where it has a threshold."""
    if goal is None or (goal == TIME and group.stop_return is not None):
        return group.primary
    return goal_metric(goal)


def judge(results: Results, group: Group, goal: str | None) -> Pick | Refusal:
    metric = metric_of(group, goal)
    if metric.name not in group.trusts:
        group = with_metric(results, group, metric)
    trust = group.trusts[metric.name]
    if trust.barred:
        return Refusal(group, trust)
    best, second = compared(group, metric)[:2]
    return Pick(group, metric, best, second, wins(group, best, second, metric))


def wins(group: Group, best: Row, second: Row, metric: Column) -> Estimate:
    """A run that never reached the threshold loses to every one that did."""
    sign = 1.0 if metric.more_is_better else -1.0

    def scores(row: Row) -> Floats:
        values = run_values(group.runs[row.contestant], metric)
        if values.ndim == 2:
            values = np.where(values[:, 1] > 0, values[:, 0], np.inf)
        return sign * values

    return probability_of_improvement(scores(best), scores(second))


def group_run_costs(group: Group) -> list[RunCosts]:
    """Of the ranked contestants; the same for every question, so that its answers agree."""
    ranked = {row.contestant: group.runs[row.contestant] for row in group.ranked}
    return run_costs(ranked)
