"""What each step makes of one framework: eager, compiled, more environments, the open division."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass

from rldyno.answers.axes import FASTER, SLOWER, AxisChange, axis_trust, change, key_of
from rldyno.answers.groups import THROUGHPUT, Group, Row, axis_words, group_label, setting_label
from rldyno.answers.runs import Runs
from rldyno.answers.trust import NOISE, Objection, Trust, beyond_noise, compared, noise_explains
from rldyno.answers.why import Split, split_of
from rldyno.answers.why_open import OpenForm, open_form
from rldyno.answers.why_words import percent, us
from rldyno.records.files import Json
from rldyno.results.load import Results
from rldyno.stats.significance import holm, two_groups_p
from rldyno.text.numbers import factor, interval
from rldyno.text.tables import Table

ENVIRONMENTS = "hyper.environments"
PLAIN = "eager"
OPEN = "open division"


@dataclass(frozen=True)
class Level:
    """A contestant in one comparison, or an open loop: one way to run the framework."""

    contestant: str
    group: Group
    """Of an open loop: that of the level before."""
    words: str
    runs: Runs
    is_open: bool = False

    @staticmethod
    def of(contestant: str, group: Group, words: str) -> Level:
        return Level(contestant, group, words, group.runs[contestant])

    @property
    def place(self) -> str:
        return OPEN if self.is_open else self.group.label


@dataclass(frozen=True)
class Step:
    """From one level to the next."""

    level: Level
    split: Split
    """`slow` is the level before, `fast` this one, whichever takes longer."""
    change: AxisChange


@dataclass(frozen=True)
class Waterfall:
    framework: str
    place: str
    first: Level
    steps: tuple[Step, ...]
    trust: Trust
    no_open: str = ""
    """Why the open division, though measured, is no step; else empty."""

    @property
    def title(self) -> str:
        return f"{self.framework}, {self.place}"


def waterfalls(results: Results, groups: Sequence[Group]) -> list[Waterfall]:
    """Per framework and per setting of the other axes, where the study holds two levels or more."""
    alike: dict[str, list[Group]] = {}
    for group in groups:
        others = [value for name, value in group.axes.items() if name != ENVIRONMENTS]
        alike.setdefault(json.dumps(others, default=str), []).append(group)
    found = []
    for bundle in alike.values():
        frameworks = dict.fromkeys(row.framework for group in bundle for row in group.ranked)
        for framework in frameworks:
            levels, no_open = with_open(results, framework, levels_of(framework, bundle))
            if len(levels) > 1:
                made = waterfall(results, framework, levels, no_open)
                found += [] if made is None else [made]
    return found


def levels_of(framework: str, bundle: Sequence[Group]) -> list[Level]:
    """Only what can be ranked in its own comparison."""
    in_order = sorted(bundle, key=environments)
    base, widest = in_order[0], in_order[-1]
    modes = fastest_first(framework, base)
    plain = [row for row in modes if row.mode == PLAIN]
    compiled = [row for row in modes if row.mode != PLAIN][:1]
    levels = [Level.of(row.contestant, base, f"`{row.contestant}`") for row in (*plain, *compiled)]
    names = [row.contestant for row in fastest_first(framework, widest)]
    if levels and widest is not base and levels[-1].contestant in names:
        many = axis_words(ENVIRONMENTS, widest.axes[ENVIRONMENTS]).removeprefix("environments ")
        levels.append(Level.of(levels[-1].contestant, widest, f"{many} environments"))
    return levels


def with_open(results: Results, framework: str, levels: list[Level]) -> tuple[list[Level], str]:
    """The levels and the open division after them, or why it is not there though it was measured."""
    form = open_form(results, framework, levels[-1].group, levels[-1].contestant) if levels else None
    if not isinstance(form, OpenForm):
        return levels, form or ""
    # It may have another number of environments than the level before.
    words = f"{OPEN}, {form.environments:,} environment{'' if form.environments == 1 else 's'}"
    opened = Level(f"{framework}:open", levels[-1].group, words, form.runs, is_open=True)
    return [*levels, opened], ""


def environments(group: Group) -> tuple[bool, float, str]:
    return key_of(group.axes.get(ENVIRONMENTS))


def fastest_first(framework: str, group: Group) -> list[Row]:
    return [row for row in compared(group, THROUGHPUT) if row.framework == framework]


def waterfall(
    results: Results, framework: str, levels: Sequence[Level], no_open: str = ""
) -> Waterfall | None:
    adaptive = results.manifest.adaptive is not None
    moves = list(itertools.pairwise(levels))
    values = ((one.runs.known(THROUGHPUT.name), other.runs.known(THROUGHPUT.name)) for one, other in moves)
    chances = holm([two_groups_p(*both) for both in values])
    steps, small = [], False
    for (before, level), chance in zip(moves, chances, strict=True):
        split = split_of(level.runs, before.runs, adaptive)
        if split is None:
            return None
        moved = change(level.contestant, before.runs, level.runs, THROUGHPUT, chance)
        steps.append(Step(level, split, moved))
        small = small or (not level.is_open and may_be_noise(before.runs, level.runs, moved))
    closed = [level for level in levels if not level.is_open]
    groups = list({id(level.group): level.group for level in closed}.values())
    trust = axis_trust(results, [level.runs for level in closed], groups)
    if not small:
        trust = Trust(tuple(beyond_noise(one) if barring(one) else one for one in trust.objections))
    return Waterfall(framework, place_of(levels[0].group), levels[0], tuple(steps), trust, no_open)


def barring(objection: Objection) -> bool:
    return objection.kind == NOISE and objection.bars


def may_be_noise(before: Runs, after: Runs, moved: AxisChange) -> bool:
    if moved.ratio is None:
        return True
    faster = moved.ratio.point
    return noise_explains(max(faster, 1 / faster), before if faster > 1 else after)


def place_of(group: Group) -> str:
    """The label of the group without what changes from level to level."""
    shown = [
        name
        for name in group.axes
        if name != ENVIRONMENTS and axis_words(name, group.axes[name]) in group.setting
    ]
    return group_label(group.axes, setting_label(group.axes, shown))


def waterfall_words(found: Waterfall) -> str:
    start = f"`{found.framework}`, {found.place}, µs per step"
    if found.trust.barred:
        values = [found.steps[0].split.slow_us, *(step.split.fast_us for step in found.steps)]
        levels = [found.first, *(step.level for step in found.steps)]
        said = ", ".join(f"{level.words} {us(value)}" for level, value in zip(levels, values, strict=True))
        return f"{start}: {said}. {open_words(found)}{found.trust.words}"
    said = "; ".join(map(step_words, found.steps))
    first = f"{found.first.words} {us(found.steps[0].split.slow_us)}"
    return f"{start}: {first}; {said}. {open_words(found)}{found.trust.words}".rstrip()


def open_words(found: Waterfall) -> str:
    return f"The open division is not shown: {found.no_open}. " if found.no_open else ""


def step_words(step: Step) -> str:
    ratio, split = step.change.ratio, step.split
    value = f"{step.level.words} {us(split.fast_us)}"
    if ratio is None or step.change.state not in (FASTER, SLOWER):
        return f"{value}, not clearly different"
    size = f"{factor(ratio.point)} {interval(ratio) or ''}".rstrip()
    return f"{value}, {size} as fast, {percent(split.phases[0])} of it `{split.phases[0].name}`"


COLUMNS = ("Framework", "Comparison", "Level", "µs per step", "Times as fast", "Saved in")


def waterfall_table(found: Sequence[Waterfall]) -> Table:
    return Table(
        "waterfall",
        "From eager to the fastest form of a framework",
        COLUMNS,
        tuple(row for one in found for row in waterfall_rows(one)),
    )


def waterfall_rows(found: Waterfall) -> list[tuple[str, ...]]:
    place = (found.framework, found.place)
    rows: list[tuple[str, ...]] = [(*place, plain(found.first), us(found.steps[0].split.slow_us), "–", "–")]
    for step in found.steps:
        cells = ("–", "–") if found.trust.barred else (ratio_cell(step), saved(step))
        rows.append((*place, plain(step.level), us(step.split.fast_us), *cells))
    return rows


def plain(level: Level) -> str:
    return level.words.replace("`", "")


def ratio_cell(step: Step) -> str:
    ratio = step.change.ratio
    return "–" if ratio is None else f"{factor(ratio.point)} {interval(ratio) or ''}".rstrip()


def saved(step: Step) -> str:
    """`update 56.0 µs, act 12.1 µs`; what became slower has a minus."""
    parts = [(phase.name, phase.gap.difference.point) for phase in step.split.phases]
    large = [(name, value) for name, value in parts if abs(value) >= 0.01 * step.split.slow_us]
    return ", ".join(f"{name} {us(value)} µs" for name, value in large) or "–"


def waterfall_json(found: Waterfall) -> Json:
    return {
        "framework": found.framework,
        "place": found.place,
        "trust": found.trust.level,
        "objections": [objection.to_json() for objection in found.trust.objections],
        "no_open": found.no_open or None,
        "levels": [
            {
                "contestant": found.first.contestant,
                "comparison": found.first.group.label,
                "us_per_step": found.steps[0].split.slow_us,
            },
            *(step_json(step, found.trust.barred) for step in found.steps),
        ],
    }


def step_json(step: Step, barred: bool) -> Json:
    values = {
        "contestant": step.level.contestant,
        "comparison": step.level.place,
        "us_per_step": step.split.fast_us,
    }
    if barred:
        return values
    ratio = step.change.ratio
    return values | {
        "times_as_fast": None if ratio is None else ratio.to_json(),
        "state": step.change.state,
        "saved_us": {phase.name: phase.gap.difference.to_json() for phase in step.split.phases},
    }
