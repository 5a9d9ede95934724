"""What a command needs from one results directory: read once, resampled once, computed when used."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from rldyno.answers.advice import Advice, advise, group_run_costs
from rldyno.answers.algorithms import AlgorithmAdvice, Match, algorithm_advice, matches
from rldyno.answers.axes import AxisAnswer, axis_answers
from rldyno.answers.break_even import RunCosts
from rldyno.answers.comparison import compare, with_metric
from rldyno.answers.groups import Group
from rldyno.answers.limits import Distance, distances
from rldyno.answers.teams import Against, core_equal, speedups
from rldyno.answers.trust import Trust
from rldyno.columns import Column
from rldyno.results.load import Results, load_results

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Analysis:
    results: Results
    _known: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def load(cls, directory: Path) -> Analysis:
        return cls(load_results(directory))

    @property
    def directory(self) -> Path:
        return self.results.directory

    @cached_property
    def comparisons(self) -> tuple[Group, ...]:
        """One per algorithm × environment × setting: its contestants' figures, ratios and learning parity."""
        return compare(self.results)

    @cached_property
    def axis_answers(self) -> tuple[AxisAnswer, ...]:
        """What each setting that varies does to each contestant."""
        return axis_answers(self.results, self.comparisons)

    @cached_property
    def speedups(self) -> tuple[Against, ...]:
        """Several workers of each contestant against one."""
        return speedups(self.results, self.comparisons)

    @cached_property
    def core_equal(self) -> tuple[Against, ...]:
        """Several workers of each contestant against one that has the cores of all."""
        return core_equal(self.results, self.comparisons)

    @cached_property
    def distances(self) -> list[Distance]:
        """How far each contestant's update is from the limit of the machine."""
        return distances(self.results)

    def advice(
        self, goal: str | None = None, algorithm: str | None = None, environment: str | None = None
    ) -> tuple[Advice, ...]:
        question = (goal, algorithm, environment)
        return self.once(
            ("advice", *question),
            lambda: advise(self.results, self.comparisons, *question, costs_of=self.run_costs),
        )

    @cached_property
    def matches(self) -> tuple[Match, ...]:
        """Algorithms against each other, where the study varies them."""
        return matches(self.results, self.comparisons)

    def algorithm_advice(
        self, goal: str | None = None, environment: str | None = None
    ) -> tuple[AlgorithmAdvice, ...]:
        """Which algorithm to take; empty where the study has one, or the goal is no goal of learning."""
        return algorithm_advice(self.matches, goal, environment)

    def trust(self, group: Group, metric: Column | None = None) -> Trust:
        """What may be said of a comparison, by the metric it is ranked by or another one."""
        chosen = metric or group.primary
        if chosen.name in group.trusts:
            return group.trusts[chosen.name]
        return self.once(
            ("trust", *group.axes.items(), chosen.name),
            lambda: with_metric(self.results, group, chosen).trusts[chosen.name],
        )

    def run_costs(self, group: Group) -> list[RunCosts]:
        """What runs of the ranked contestants of a comparison cost: the base of its break-evens."""
        return self.once(("run_costs", *group.axes.items()), lambda: group_run_costs(group))

    def once(self, key: Any, compute: Callable[[], Answer]) -> Answer:
        """Computed at most once for a key; rooms above this one use it for answers of their own."""
        if key not in self._known:
            self._known[key] = compute()
        answer: Answer = self._known[key]
        return answer
