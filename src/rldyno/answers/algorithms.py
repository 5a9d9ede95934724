"""Algorithms against each other: one contestant, one environment, one setting, equal budgets.

A match is a comparison whose rows are algorithms instead of contestants: the same tests, intervals and
objections apply.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import polars as pl

from rldyno.answers import fixes
from rldyno.answers.advice import TIME, Pick, wins
from rldyno.answers.comparison import compared_by, figures_of
from rldyno.answers.groups import THRESHOLD, Group, Row
from rldyno.answers.learned import Unlearned
from rldyno.answers.trust import (
    BUDGET,
    NOISE,
    UNLEARNED,
    UNTUNED,
    Objection,
    Trust,
    compared,
    trust_of,
    unlearned_words,
)
from rldyno.columns import Column
from rldyno.records.manifest import Task
from rldyno.records.status import DONE
from rldyno.results.columns import column
from rldyno.results.load import Results
from rldyno.stats.equivalence import DIFFERENT
from rldyno.study.origins import untuned_words
from rldyno_rig.schema import EPISODES, STEPS, STOPPED, WALL

FINAL = column("final_return")
# `reason` of a trial that is done.
ENDINGS = {STEPS: "environment steps", EPISODES: "episodes", WALL: "seconds of training"}


@dataclass(frozen=True)
class Match:
    """Every algorithm of a study in the hands of one contestant."""

    contestant: str
    environment: str
    setting: str
    group: Group
    """Its rows and runs are those of the algorithms, by title, and judged by both metrics."""
    ended_by: tuple[str, ...]
    """What ended the runs: one budget where all had the same."""

    @property
    def place(self) -> str:
        return ", ".join(filter(None, [self.environment, self.setting]))

    @property
    def metrics(self) -> tuple[Column, ...]:
        return (FINAL,) if self.group.stop_return is None else (THRESHOLD, FINAL)

    @property
    def primary(self) -> Column:
        return self.metrics[0]

    def trust(self, metric: Column) -> Trust:
        return self.group.trusts[metric.name]

    def pick(self, metric: Column) -> Pick | None:
        """The best algorithm by a metric; None where no winner may be named."""
        if self.trust(metric).barred:
            return None
        best, second = compared(self.group, metric)[:2]
        return Pick(self.group, metric, best, second, wins(self.group, best, second, metric))

    @property
    def budget_words(self) -> str:
        """That all algorithms had the same budget, or what ended their runs."""
        if len(self.ended_by) == 1 and self.ended_by[0] in ENDINGS:
            return f"every run had the same number of {ENDINGS[self.ended_by[0]]}"
        said = [f"the threshold ({STOPPED})" if why == STOPPED else why for why in self.ended_by]
        return f"runs were ended by {' or '.join(said)}" if said else "no run has ended"


def matches(results: Results, groups: Sequence[Group]) -> tuple[Match, ...]:
    """One per contestant and setting in which several algorithms ran; none where a study has only one."""
    alike: dict[tuple[Any, ...], list[Group]] = {}
    for group in groups:
        rest = tuple((name, value) for name, value in group.axes.items() if name != "algorithm")
        alike.setdefault(rest, []).append(group)
    return tuple(
        made(results, contestant, members)
        for members in alike.values()
        if len(members) > 1
        for contestant in contestants_of(members)
    )


def contestants_of(groups: Sequence[Group]) -> Iterator[str]:
    """Those with runs of two algorithms at least."""
    for name in dict.fromkeys(name for group in groups for name in group.runs):
        if sum(bool(len(group.runs.get(name, ()))) for group in groups) > 1:
            yield name


def made(results: Results, contestant: str, groups: Sequence[Group]) -> Match:
    ran = [group for group in groups if contestant in group.runs]
    trials = pl.concat([group.trials.filter(pl.col("contestant") == contestant) for group in ran])
    stops = {group.stop_return for group in ran}
    whole = Group(
        axes=ran[0].axes | {"algorithm": None},
        setting=ran[0].setting,
        stop_return=ran[0].stop_return if len(stops) == 1 else None,
        stop_episodes=ran[0].stop_episodes,
        rows=tuple(algorithm_row(group, contestant) for group in ran),
        trials=trials,
        runs={group.algorithm: group.runs[contestant] for group in ran},
    )
    ended = trials.filter(pl.col("status") == DONE)["reason"].unique().sort().to_list()
    match = Match(contestant, ran[0].environment, ran[0].setting, whole, tuple(filter(None, ended)))
    for metric in match.metrics:
        judged = compared_by(results, match.group, metric, partial(judge, match, ran))
        match = replace(match, group=judged)
    return match


def algorithm_row(group: Group, contestant: str) -> Row:
    """The contestant's row, named by the algorithm. Only that it learns unlike others matters here."""
    row = next(row for row in group.rows if row.contestant == contestant)
    unlike = row.parity is not None and row.parity.state == DIFFERENT
    figures = figures_of(group.runs[contestant], (THRESHOLD, FINAL))
    return replace(row, contestant=group.algorithm, parity=row.parity if unlike else None, figures=figures)


def judge(match: Match, groups: Sequence[Group], results: Results, group: Group, metric: Column) -> Trust:
    """The objections to contestants that hold for algorithms too, and those to algorithms alone."""
    plain = [
        objection
        for objection in trust_of(results, group, metric).objections
        # Load makes a run slower; it does not change what is learned in as many steps or episodes.
        if objection.kind != NOISE or metric is THRESHOLD or WALL in match.ended_by
    ]
    own = (
        unequal_budgets(results, match, metric),
        nobody(results, groups),
        some_untuned(results, groups),
    )
    return Trust((*plain, *(objection for objection in own if objection is not None)))


def unequal_budgets(results: Results, match: Match, metric: Column) -> Objection | None:
    """To returns at the end of runs: the longer run has the better one."""
    if metric is not FINAL or (len(match.ended_by) < 2 and STOPPED not in match.ended_by):
        return None
    if STOPPED in match.ended_by:
        words = "Runs end when they reach the threshold, so their last returns cannot be compared."
        return Objection(BUDGET, True, words, fixes.go_on(results))
    words = f"Different budgets ended the runs ({', '.join(match.ended_by)})."
    return Objection(BUDGET, True, words, fixes.one_budget(results))


def nobody(results: Results, groups: Sequence[Group]) -> Objection | None:
    """Where no algorithm is known to have learned, the best of them is an accident."""
    known = [group.unlearned for group in groups if group.unlearned is not None]
    short = [group.algorithm for group in groups if group.few_episodes]
    if not known or len(known) + len(short) < len(groups):
        return None
    start, end = (sum(getattr(one, name) for one in known) / len(known) for name in ("start", "end"))
    words = unlearned_words(Unlearned(start, end))
    if short:
        words += f" Of {' and '.join(short)} too few episodes ended to tell."
    return Objection(UNLEARNED, True, words, fixes.learnable(results))


def some_untuned(results: Results, groups: Sequence[Group]) -> Objection | None:
    """A bad hyper-parameter must not pass for a bad algorithm."""
    tasks = [Task(str(group.axes["algorithm"]), group.environment) for group in groups]
    found = [untuned_words(task) for task in tasks if task in results.manifest.untuned]
    return Objection(UNTUNED, False, f"{'; '.join(found)}.") if found else None


# --- advice -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class AlgorithmAdvice:
    """Which algorithm to take in one place, for each contestant that ran several."""

    place: str
    goal: str
    metric: Column
    matches: tuple[Match, ...]

    @property
    def picks(self) -> tuple[tuple[Match, Pick], ...]:
        found = ((match, match.pick(self.metric)) for match in self.matches)
        return tuple((match, pick) for match, pick in found if pick is not None)

    @property
    def refusals(self) -> tuple[Match, ...]:
        return tuple(match for match in self.matches if match.trust(self.metric).barred)

    @property
    def agreed(self) -> str | None:
        """The algorithm that is clearly the best with every contestant that has an answer."""
        names = {None if pick.trust.tied else pick.contestant for _, pick in self.picks}
        return names.pop() if len(names) == 1 else None


def algorithm_advice(
    found: Sequence[Match], goal: str | None = None, environment: str | None = None
) -> tuple[AlgorithmAdvice, ...]:
    """One per environment and setting. Only learning tells algorithms apart, so other goals have none."""
    if goal not in (None, TIME, *names_of(THRESHOLD), *names_of(FINAL)):
        return ()
    places: dict[str, list[Match]] = {}
    for match in found:
        if environment in (None, match.environment):
            places.setdefault(match.place, []).append(match)
    advised = []
    for place, members in places.items():
        metric = FINAL if goal in names_of(FINAL) else THRESHOLD if goal else members[0].primary
        if all(metric in match.metrics for match in members):
            name = TIME if metric is THRESHOLD else metric.key
            advised.append(AlgorithmAdvice(place, name, metric, tuple(members)))
    return tuple(advised)


def names_of(metric: Column) -> tuple[str, ...]:
    return (metric.name, *metric.aliases)
