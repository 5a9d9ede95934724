"""Which two contestants are asked about, and in which comparisons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rldyno.answers.analysis import Analysis
from rldyno.answers.groups import THROUGHPUT, Group
from rldyno.answers.trust import compared
from rldyno.answers.why import Why, why
from rldyno.answers.why_steps import Waterfall, waterfalls
from rldyno.errors import Problem
from rldyno.toml.suggestions import suggest


@dataclass(frozen=True)
class Question:
    """What a user asked for: settings of comparisons by name, and two contestants or none."""

    settings: tuple[tuple[str, str], ...] = ()
    contestants: tuple[str, str] | None = None

    @classmethod
    def of(
        cls,
        algorithm: str | None,
        environment: str | None,
        where: Sequence[str],
        contestants: tuple[str | None, str | None],
    ) -> Question:
        """From a command line; a Problem where it cannot be meant so."""
        named = (("algorithm", algorithm), ("environment", environment))
        settings = [(name, value) for name, value in named if value is not None]
        for text in where:
            name, separator, value = text.partition("=")
            if not separator:
                raise Problem(
                    f"--where {text} is not NAME=VALUE", fix="write it like --where cores=2", code=2
                )
            settings.append((name, value))
        first, second = contestants
        if first is None:
            return cls(tuple(settings))
        if second is None or first == second:
            raise Problem(
                f"`{first}` needs another contestant to be compared with",
                fix="name two contestants, or none: then the fastest and the slowest are compared",
                code=2,
            )
        return cls(tuple(settings), (first, second))


def pairs(analysis: Analysis, asked: Question) -> list[Why]:
    """One per comparison that has both; a Problem where none has."""
    groups = chosen(analysis, asked)
    if asked.contestants is not None:
        check_contestants(groups, asked.contestants)
    found = []
    for group in groups:
        names = asked.contestants or extremes(group)
        if names is not None and all(len(group.runs.get(name, ())) for name in names):
            made = why(analysis.results, group, *names)
            found += [] if made is None else [made]
    if not found:
        who = "both contestants" if asked.contestants else "two contestants"
        guests = any(row.guest for group in groups for row in group.rows)
        why_not = "; the time of a guest cannot be split" if guests else ""
        raise Problem(
            f"no comparison has finished trials with phases of {who}{why_not}",
            fix=f"see what has ended: rldyno status {analysis.directory}",
            code=1,
        )
    return found


def steps_of(analysis: Analysis, asked: Question) -> list[Waterfall]:
    """Of the frameworks of the contestants that were named; of all where none was."""
    found = waterfalls(analysis.results, chosen(analysis, asked))
    if asked.contestants is None:
        return found
    named = set(asked.contestants)
    return [one for one in found if named & {one.first.contestant, *(s.level.contestant for s in one.steps)}]


def extremes(group: Group) -> tuple[str, str] | None:
    """The fastest and the slowest that can be ranked; where fewer than two can, of all with finished runs."""
    ranked = [row.contestant for row in compared(group, THROUGHPUT)]
    guests = {row.contestant for row in group.rows if row.guest}
    ran = [name for name, runs in group.runs.items() if len(runs) and name not in guests]
    names = ranked if len(ranked) > 1 else ran
    return (names[0], names[-1]) if len(names) > 1 else None


def chosen(analysis: Analysis, asked: Question) -> list[Group]:
    groups = list(analysis.comparisons)
    for name, value in asked.settings:
        axis = name if name in analysis.results.axes else f"hyper.{name}"
        if axis not in analysis.results.axes:
            known = [axis.removeprefix("hyper.") for axis in analysis.results.axes]
            raise Problem(
                f"no comparison has a setting `{name}`", fix=f"settings: {', '.join(known)}", code=2
            )
        levels = sorted({str(group.axes[axis]) for group in groups})
        groups = [group for group in groups if str(group.axes[axis]) == value]
        if not groups:
            raise Problem(f"no comparison has {name}={value}", fix=f"values: {', '.join(levels)}", code=2)
    return groups


def check_contestants(groups: Sequence[Group], names: Sequence[str]) -> None:
    known = sorted({row.contestant for group in groups for row in group.rows})
    for name in names:
        if name not in known:
            raise Problem(f"no comparison has the contestant `{name}`{suggest(name, known)}", code=2)
    guests = {row.contestant for group in groups for row in group.rows if row.guest}
    for name in guests.intersection(names):
        raise Problem(
            f"`{name}` is a guest: only its environments are seen, so its time cannot be split",
            fix="name two other contestants",
            code=2,
        )
