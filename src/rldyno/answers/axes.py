"""Answers along an axis: what a setting does to each contestant, and where the choice changes."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from rldyno.answers.comparison import times_worse
from rldyno.answers.groups import STEPS, THRESHOLD, THROUGHPUT, Group, axis_words, run_values, setting_label
from rldyno.answers.runs import Runs
from rldyno.answers.trust import Trust, disturbed, few_seeds, unfinished
from rldyno.columns import Column
from rldyno.results.load import Results
from rldyno.stats.distributions import ALPHA
from rldyno.stats.estimates import Estimate
from rldyno.stats.significance import holm, two_groups_p
from rldyno.text.numbers import factor, first_and_more, interval

# Tasks are compared by nobody, divisions and kinds of machines never; strong scaling has another batch.
TASK_AXES = ("division", "algorithm", "environment", "scaling", "processor")
TEAM_AXES = ("collective", "scaling")
"""Of several workers: one has neither."""
# No faster: at most this share faster, with 95 %.
WITHIN = 0.1
FASTER, SLOWER, NO_FASTER, UNCLEAR = "faster", "slower", "no faster", "not clear"

SAID = {
    FASTER: "`{name}` is {size} as fast",
    SLOWER: "`{name}` is slower, {size} as fast",
    NO_FASTER: "`{name}` is no faster ({size})",
    UNCLEAR: "for `{name}` it is not clear ({size})",
}
STEPS_SAID = {
    FASTER: "`{name}` needs fewer, {size} as many",
    SLOWER: "`{name}` needs more, {size} as many",
    NO_FASTER: "`{name}` needs no fewer ({size} as many)",
    UNCLEAR: "for `{name}` it is not clear ({size} as many)",
}
WHAT = {THRESHOLD.name: "time to the threshold", STEPS.name: "steps to the threshold"}


@dataclass(frozen=True)
class AxisChange:
    """What a setting does to one contestant."""

    contestant: str
    ratio: Estimate | None
    """How many times as fast, or as few steps, as at the base; None where too few runs reached the threshold,
    or barred."""
    state: str
    metric: Column = THROUGHPUT

    @property
    def words(self) -> str:
        if self.ratio is None:
            return f"for `{self.contestant}` it is not clear (too few runs reached the threshold)"
        ratio = self.ratio.inverse() if self.metric is STEPS else self.ratio
        size = f"{factor(ratio.point)} {interval(ratio) or ''}".rstrip()
        said = STEPS_SAID if self.metric is STEPS else SAID
        return said[self.state].format(name=self.contestant, size=size)


@dataclass(frozen=True)
class AxisAnswer:
    """One level of an axis against its lowest one, everything else the same."""

    axis: str
    base: Any
    level: Any
    place: str
    """Task and the other axes that vary: `PPO on CartPole-v1, batch_size 64`."""
    metric: Column
    """Speed, or for a hyper-parameter, which changes learning, time and steps to the threshold."""
    changes: tuple[AxisChange, ...]
    trust: Trust

    @property
    def words(self) -> str:
        what = WHAT.get(self.metric.name, "speed")
        against_base = f"{axis_words(self.axis, self.level)} against {axis_words(self.axis, self.base)}"
        start = f"{self.place}, {against_base}, {what}: "
        if self.trust.barred:
            return f"{start}no answer. {self.trust.words}"
        said = start + "; ".join(change.words for change in self.changes) + "."
        return f"{said} {self.trust.words}".rstrip()


def axis_answers(results: Results, groups: Sequence[Group]) -> tuple[AxisAnswer, ...]:
    """One per axis that varies, per level above its lowest, and per setting of the other axes; of a
    hyper-parameter one for the time and one for the steps to the threshold.
    """
    return tuple(
        answer
        for axis, line in lines_of([(group.axes, group) for group in groups])
        if axis not in TASK_AXES
        for answer in line_answers(results, axis, line)
    )


def folded_words(answers: Sequence[AxisAnswer]) -> list[str]:
    """One line each; places that have no answer for the same reason share one."""
    lines: dict[Any, list[AxisAnswer]] = {}
    for answer in answers:
        asked = (answer.axis, answer.base, answer.level, answer.metric.name)
        key = (*asked, answer.trust.words if answer.trust.barred else answer.place)
        lines.setdefault(key, []).append(answer)
    return [
        replace(alike[0], place=first_and_more([answer.place for answer in alike])).words
        for alike in lines.values()
    ]


Line = list[tuple[dict[str, Any], Any]]
Item = TypeVar("Item")
Pair = tuple[Any, str]
"""Level of an axis, contestant."""


def lines_of(items: Sequence[tuple[dict[str, Any], Any]]) -> Iterator[tuple[str, Line]]:
    """Each axis that varies with items that differ in nothing else, lowest level first.

    One worker is the first level of every collective and scaling.
    """
    names = list(items[0][0]) if items else []
    varying = [name for name in names if len({key_of(axes[name]) for axes, _ in items}) > 1]
    for axis in varying:
        lines: dict[str, Line] = {}
        for item in with_one_worker(items) if axis == "workers" else items:
            others = [item[0][name] for name in varying if name != axis]
            lines.setdefault(json.dumps(others, default=str), []).append(item)
        for line in lines.values():
            if len(line) > 1:
                yield axis, sorted(line, key=lambda item: key_of(item[0][axis]))


def with_one_worker(items: Sequence[tuple[dict[str, Any], Item]]) -> list[tuple[dict[str, Any], Item]]:
    """Each item of one worker once for every collective and scaling of several, with these as its own."""
    several = [axes for axes, _ in items if axes["workers"] != 1]
    ways = list(dict.fromkeys(tuple(axes[name] for name in TEAM_AXES) for axes in several))
    return [
        (axes | dict(zip(TEAM_AXES, way, strict=True)), item)
        for axes, item in items
        for way in (ways if axes["workers"] == 1 else [tuple(axes[name] for name in TEAM_AXES)])
    ]


def line_answers(results: Results, axis: str, line: Line) -> Iterator[AxisAnswer]:
    groups: list[Group] = [group for _, group in line]
    learned = axis.startswith("hyper.") and groups[0].stop_return is not None
    pairs = {
        (group.axes[axis], name): (groups[0].runs[name], group.runs[name])
        for group in groups[1:]
        for name in in_both(groups[0], group)
    }
    metrics = (THRESHOLD, STEPS) if learned else (THROUGHPUT,)
    corrected = {metric.name: corrected_chances(pairs, metric) for metric in metrics}
    for group, metric in itertools.product(groups[1:], metrics):
        level = group.axes[axis]
        here = {name: runs for (found, name), runs in pairs.items() if found == level}
        if not here:
            continue
        every = [runs for both in here.values() for runs in both]
        trust = axis_trust(results, every, [groups[0], group], timed=metric is not STEPS)
        chance = corrected[metric.name]
        changes = (change(name, *runs, metric, chance[level, name]) for name, runs in here.items())
        known = () if trust.barred else tuple(changes)
        yield AxisAnswer(axis, groups[0].axes[axis], level, place_of(group, axis), metric, known, trust)


def corrected_chances(pairs: Mapping[Pair, tuple[Runs, Runs]], metric: Column) -> dict[Pair, float]:
    """That each pair differs by chance alone, corrected over all of them (Holm)."""
    values = ((run_values(low, metric), run_values(high, metric)) for low, high in pairs.values())
    return dict(zip(pairs, holm([two_groups_p(low, high) for low, high in values]), strict=True))


def in_both(base: Group, group: Group) -> list[str]:
    """Contestants that may be ranked at either level."""
    fit = [{row.contestant for row in found.ranked} for found in (base, group)]
    return [name for name in base.runs if name in fit[0] & fit[1]]


def axis_trust(results: Results, runs: Sequence[Runs], groups: Sequence[Group], timed: bool = True) -> Trust:
    """Other load on the machine changes times, but no number of steps."""
    found = (
        few_seeds(results, min(map(len, runs))),
        disturbed(results, runs) if timed else None,
        unfinished(results, [row for group in groups for row in group.rows]),
    )
    return Trust(tuple(objection for objection in found if objection is not None))


def change(name: str, base: Runs, runs: Runs, metric: Column, chance: float) -> AxisChange:
    ratio = times_worse(base, runs, metric)
    return AxisChange(name, ratio, state_of(ratio, chance), metric)


def state_of(ratio: Estimate | None, chance: float) -> str:
    if ratio is None or ratio.low is None or ratio.high is None:
        return UNCLEAR
    if chance <= ALPHA and ratio.low > 1:
        return FASTER
    if chance <= ALPHA and ratio.high < 1:
        return SLOWER
    return NO_FASTER if ratio.high <= 1 + WITHIN else UNCLEAR


def place_of(group: Group, *axes: str) -> str:
    """The label of the group without these axes."""
    said = [axis_words(axis, group.axes[axis]) for axis in axes]
    others = [part for part in group.label.split(", ") if part not in said]
    return ", ".join(others)


# --- where the choice changes -------------------------------------------------------------------------------


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
        places = f"{levels_words(self.axis, levels)}{where}"
        if not clear:
            return f"`{pick}` has the better value for {places}, but not clearly everywhere."
        return f"`{pick}` stays the choice for {places}."


def choices_by_axis(choices: Sequence[Choice]) -> tuple[ChoiceByAxis, ...]:
    """One per axis that varies and per setting of the other axes."""
    found = []
    for axis, line in lines_of([(choice[0], choice) for choice in choices]):
        chosen = [choice for _, choice in line]
        others = [name for name in chosen[0][0] if name != axis and varies(name, choices)]
        found.append(ChoiceByAxis(axis, setting_label(chosen[0][0], others), stretches(axis, chosen)))
    return tuple(found)


def varies(name: str, choices: Sequence[Choice]) -> bool:
    return len({key_of(axes[name]) for axes, _, _ in choices}) > 1


def stretches(axis: str, line: Sequence[Choice]) -> tuple[tuple[tuple[Any, ...], str, bool], ...]:
    """Of a line with its lowest level first."""
    merged: list[tuple[list[Any], str, bool]] = []
    for axes, pick, clear in line:
        if merged and merged[-1][1] == pick:
            levels, _, sure = merged.pop()
            merged.append(([*levels, axes[axis]], pick, sure and clear))
        else:
            merged.append(([axes[axis]], pick, clear))
    return tuple((tuple(levels), pick, clear) for levels, pick, clear in merged)


def key_of(level: Any) -> tuple[bool, float, str]:
    """Numbers in their order, `[64, 64]` by its size, then texts; none comes first."""
    if isinstance(level, str) and re.fullmatch(r"\[[\[\]\d, ]*\]", level):
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
