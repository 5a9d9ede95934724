"""The answer in plain words. Names of contestants stand in backticks."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from rldyno.answers.groups import THRESHOLD, Group, Row
from rldyno.answers.ratios import told_apart
from rldyno.stats.equivalence import UNDECIDED
from rldyno.text.numbers import factor, interval, number


def headline(groups: Sequence[Group]) -> str:
    """One sentence over all groups."""
    if len(groups) == 1:
        return sentence(groups[0])
    winners = Counter(row.contestant for group in groups if (row := winner(group)) is not None)
    if not winners:
        return f"None of the {len(groups)} comparisons has an answer yet."
    (first, wins), *others = winners.most_common()
    kinds = {group.primary.name for group in groups}
    verb = (
        "learned soonest"
        if kinds == {THRESHOLD.name}
        else "ran fastest"
        if THRESHOLD.name not in kinds
        else "came first"
    )
    everywhere = "both" if len(groups) == 2 else f"all {len(groups)}"
    share = f"in {everywhere if wins == len(groups) else f'{wins} of {len(groups)}'} comparisons"
    rest = "".join(f", `{name}` in {count}" for name, count in others)
    clear = sum(resolved(group) for group in groups)
    sure = {0: "; no lead is clear yet", len(groups): ", and the lead is clear each time"}.get(
        clear, f"; the lead is clear in {clear} of them"
    )
    return f"`{first}` {verb} {share}{rest}{sure}."


def sentence(group: Group) -> str:
    """The answer for one group: who won, by how much, how sure; then who is not ranked and why."""
    return " ".join(filter(None, [verdict(group), laggards(group), unranked(group), unproven(group)]))


def verdict(group: Group) -> str:
    task = f"{group.environment} with {group.algorithm}" + (f" ({group.setting})" if group.setting else "")
    if not group.ranked:
        return f"No contestant can be ranked on {task}."
    best = winner(group)
    if best is None:
        return f"No contestant reached a mean return of {group.stop_return:g} on {task} within the budget."
    figure = best.figures[group.primary.name].estimate
    amount = f"{number(figure.point)} {group.primary.unit}" + spaced(interval(figure))
    did = f"learned {task}" if group.primary is THRESHOLD else f"ran {task}"
    if len(group.ranked) == 1:
        how = "in" if group.primary is THRESHOLD else "at"
        alone = "no other contestant can be compared with it"
        return f"`{best.contestant}` {did} {how} {amount}; {alone}{doubts(group)}."
    superlative = "soonest" if group.primary is THRESHOLD else "fastest"
    return f"`{best.contestant}` {did} {superlative}: {amount}, {lead(group)}{doubts(group)}."


def lead(group: Group) -> str:
    """By how much the winner is ahead of the runner-up."""
    second = group.ranked[1]
    ratio = second.figures[group.primary.name].ratio if group.primary.name in second.figures else None
    if ratio is None:
        return "the only one to get there within the budget"
    if group.primary is THRESHOLD:
        return f"{factor(ratio.point)} sooner than `{second.contestant}`"
    return f"{factor(ratio.point)} as fast as `{second.contestant}`"


def doubts(group: Group) -> str:
    best = winner(group)
    if best is None:
        return ""
    doubt = []
    figure = best.figures[group.primary.name]
    if figure.note:
        doubt.append(f"but it did {figure.note} runs")
    second = group.ranked[1] if len(group.ranked) > 1 else None
    seeds = min(row.done for row in group.ranked[:2])
    if second is not None and seeds > 1 and not separated(group):
        doubt.append(doubt_words(second, group))
    if seeds == 1:
        doubt.append("one seed shows no spread")
    elif figure.estimate.too_few or (second is not None and seeds < best.done):
        doubt.append(f"{seeds} seeds are too few to be sure")
    return "".join(f"; {item}" for item in doubt)


def doubt_words(second: Row, group: Group) -> str:
    figure = second.figures.get(group.primary.name)
    if figure is not None and figure.equal_within is not None:
        return f"`{second.contestant}` is equal to it within {100 * figure.equal_within:g} %"
    return f"the lead over `{second.contestant}` may be chance{seeds_words(second, group)}"


def laggards(group: Group) -> str | None:
    """Ranked contestants whose median run never got there, when another's did."""
    if winner(group) is None:
        return None
    late = [
        f"`{row.contestant}` ({figure.note})"
        for row in group.ranked
        if (figure := row.figures.get(group.primary.name)) and math.isinf(figure.estimate.point)
    ]
    return f"Too slow for the budget: {', '.join(late)}." if late else None


def unranked(group: Group) -> str | None:
    outside = [row for row in group.rows if row.unranked is not None and row.absent is None]
    if not outside:
        return None
    named = "; ".join(f"`{row.contestant}` ({row.unranked})" for row in outside)
    return f"Not ranked: {named}."


def unproven(group: Group) -> str | None:
    """Ranked contestants that have too few seeds to show that they learn like the reference."""
    open_still = [row for row in group.ranked if row.parity is not None and row.parity.state == UNDECIDED]
    if not open_still:
        return None
    names = ", ".join(f"`{row.contestant}`" for row in open_still)
    reference = next(row.parity.reference for row in open_still if row.parity is not None)
    verb = "learns" if len(open_still) == 1 else "learn"
    known = [row.parity.more_seeds for row in open_still if row.parity is not None]
    more = [seeds for seeds in known if seeds is not None]
    enough = f" (about {more_words(max(more))} would)" if more and len(more) == len(known) else ""
    return f"Not shown yet, for want of seeds: that {names} {verb} like `{reference}`{enough}."


def seeds_words(second: Row, group: Group) -> str:
    figure = second.figures.get(group.primary.name)
    if figure is None or figure.more_seeds is None:
        return ""
    return f" (about {more_words(figure.more_seeds)} would tell)"


def more_words(seeds: int) -> str:
    return f"{seeds} more seed{'' if seeds == 1 else 's'}"


def winner(group: Group) -> Row | None:
    for row in group.ranked[:1]:
        figure = row.figures.get(group.primary.name)
        if figure is not None and math.isfinite(figure.estimate.point):
            return row
    return None


def separated(group: Group) -> bool:
    """Whether the runner-up is told apart from the first."""
    figure = group.ranked[1].figures.get(group.primary.name)
    return figure is None or told_apart(figure)


def resolved(group: Group) -> bool:
    """Clear at 95 %: a winner, separated from the runner-up, on enough seeds."""
    best = winner(group)
    if best is None or len(group.ranked) < 2:
        return False
    enough = not any(row.figures[group.primary.name].estimate.too_few for row in group.ranked[:2])
    return enough and separated(group)


def spaced(text: str | None) -> str:
    return f" {text}" if text else ""
