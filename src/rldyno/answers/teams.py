"""What several workers give: speed-up and efficiency, against one worker with its cores or with all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from rldyno.answers.axes import TEAM_AXES, axis_trust, in_both, place_of, state_of
from rldyno.answers.comparison import times_worse
from rldyno.answers.groups import THROUGHPUT, Group, run_values
from rldyno.answers.runs import Runs
from rldyno.answers.trust import Trust
from rldyno.results.load import Results
from rldyno.stats.estimates import Estimate
from rldyno.stats.significance import holm, two_groups_p

Key = tuple[object, ...]


@dataclass(frozen=True)
class Against:
    """The workers of one contestant against one worker of it."""

    contestant: str
    team: Group
    alone: Group
    ratio: Estimate | None
    """Steps per second of all workers over those of the one; None where barred, or without speeds."""
    state: str
    """faster, slower, no faster, or not clear."""
    ranked: bool
    """Whether the contestant may be ranked in both."""
    trust: Trust

    @property
    def workers(self) -> int:
        return int(self.team.axes["workers"])

    @property
    def efficiency(self) -> Estimate | None:
        """Speed-up / workers."""
        return None if self.ratio is None else self.ratio.scaled(1 / self.workers)

    @property
    def task(self) -> str:
        """Task and setting without workers, their collective and scaling: `DQN on CartPole-v1, 1 core`."""
        return place_of(self.team, "workers", *TEAM_AXES)

    @property
    def runs(self) -> Runs:
        return self.team.runs[self.contestant]


def speedups(results: Results, groups: Sequence[Group]) -> tuple[Against, ...]:
    """Every contestant with several workers against itself with one, which has as many cores as each."""
    return against(results, groups, lambda team: int(team.axes["cores"]))


def core_equal(results: Results, groups: Sequence[Group]) -> tuple[Against, ...]:
    """Against one worker that has the cores of all of them."""
    return against(results, groups, lambda team: int(team.axes["cores"] * team.axes["workers"]))


def against(results: Results, groups: Sequence[Group], cores: Callable[[Group], int]) -> tuple[Against, ...]:
    """Chances are corrected (Holm) over all of them."""
    found = list(pairs(groups, cores))
    values = [
        [run_values(group.runs[name], THROUGHPUT) for group in (alone, team)] for name, alone, team in found
    ]
    chances = holm([two_groups_p(*both) for both in values])
    return tuple(compared(results, *pair, chance=chance) for pair, chance in zip(found, chances, strict=True))


def pairs(groups: Sequence[Group], cores: Callable[[Group], int]) -> Iterator[tuple[str, Group, Group]]:
    """(contestant, its group with one worker, that with several)."""
    alone = {rest_of(group, group.axes["cores"]): group for group in groups if group.axes["workers"] == 1}
    for team in groups:
        base = alone.get(rest_of(team, cores(team)))
        if team.axes["workers"] == 1 or base is None:
            continue
        for name in team.runs:
            if name in base.runs and len(team.runs[name]) and len(base.runs[name]):
                yield name, base, team


def rest_of(group: Group, cores: int) -> Key:
    """Everything in which the two must agree, with so many cores for the one worker."""
    freed = ("cores", "workers", *TEAM_AXES)
    return (cores, *(value for name, value in group.axes.items() if name not in freed))


def compared(results: Results, name: str, alone: Group, team: Group, chance: float) -> Against:
    both = (alone.runs[name], team.runs[name])
    trust = axis_trust(results, both, [alone, team])
    ratio = None if trust.barred else times_worse(*both, THROUGHPUT)
    return Against(
        contestant=name,
        team=team,
        alone=alone,
        ratio=ratio,
        state=state_of(ratio, chance),
        ranked=name in in_both(alone, team),
        trust=trust,
    )
