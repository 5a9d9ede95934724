"""Changes between two results directories as text: a headline, a table, Markdown for a pull request."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rldyno.answers.changes import Changes
from rldyno.answers.session_change import BETTER, UNCHANGED, UNDECIDED, WORSE, Change
from rldyno.stats.estimates import Estimate
from rldyno.stats.power import POWER
from rldyno.stats.sessions import SESSION_SPREAD
from rldyno.text.numbers import number


def headline(comparison: Changes) -> str:
    """`2 slower, 1 faster, 12 unchanged, 5 undecided (threshold 5 %)`."""
    counts: dict[str, int] = {}
    order = {WORSE: 0, BETTER: 1, UNCHANGED: 2, UNDECIDED: 3}
    for change in sorted(comparison.changes, key=lambda change: order[change.verdict] + change.barred):
        counts[change.word] = counts.get(change.word, 0) + 1
    words = ", ".join(f"{count} {word}" for word, count in counts.items())
    return f"{words or 'nothing to compare'} (threshold {comparison.threshold * 100:g} %)"


def seeds_words(comparison: Changes) -> str | None:
    """How many more seeds the undecided changes need; None when nothing is undecided."""
    undecided = [change for change in comparison.changes if change.verdict == UNDECIDED and not change.barred]
    if not undecided:
        return None
    known = sorted(change.more_seeds for change in undecided if change.more_seeds is not None)
    head = f"Undecided: {len(undecided)}"
    if not known:
        return f"{head}. More seeds would hardly help: the differences are too close to the threshold."
    half = known[(len(known) - 1) // 2]
    decided = sum(more <= half for more in known)
    words = f"{head}. About {half} more seed{'' if half == 1 else 's'} in both would decide {decided} of them"
    words += f", {known[-1]} more {len(known)}" if known[-1] > half else ""
    return f"{words} (each with {100 * POWER:g} % chance)."


def barred_words(comparison: Changes) -> list[str]:
    """Why some are not judged, once for each reason; then what to do, once."""
    barred = [change for change in comparison.changes if change.barred]
    found = [(objection, change) for change in barred for objection in change.objections if objection.bars]
    reasons: dict[str, dict[str, list[str]]] = {}
    for objection, change in found:
        places = reasons.setdefault(objection.words, {})
        places.setdefault(change.setting, []).append(f"`{change.contestant}`")
    lines = []
    for words, places in reasons.items():
        named = (f"{', '.join(dict.fromkeys(names))} in {setting}" for setting, names in places.items())
        lines.append(f"Not judged: {'; '.join(named)}. {words}")
    return [*lines, *dict.fromkeys(objection.fix for objection, _ in found if objection.fix)]


def shift_words(comparison: Changes) -> list[str]:
    """Where every contestant moved the same way, and alike, the machine may have."""
    lines = []
    for metric in dict.fromkeys(change.metric for change in comparison.changes):
        found = [change for change in comparison.changes if change.metric == metric and change.ratio]
        moved = [math.log(change.ratio.point) for change in found if change.ratio]
        contestants = {change.contestant for change in found}
        decided = any(change.verdict in (WORSE, BETTER) for change in found)
        if len(contestants) < 2 or not decided or min(moved) * max(moved) <= 0:
            continue
        least, most = sorted((min(map(abs, moved)), max(map(abs, moved))))
        if least >= most / 2:
            lines.append(
                f"{metric.title}: every contestant moved the same way, by {100 * math.expm1(least):.0f} to "
                f"{100 * math.expm1(most):.0f} %. The machine may have changed rather than the contestants: "
                "run A again to find out."
            )
    return lines


def assumption_words(comparison: Changes) -> str:
    judged = sum(change.chance is not None for change in comparison.changes)
    return (
        f"Corrected for {judged} verdicts together. Two sessions of one study are taken to differ by "
        f"{100 * math.sqrt(2) * SESSION_SPREAD:.0f} % (standard deviation) by themselves."
    )


def figures(change: Change) -> tuple[str, str, str, str]:
    """(before, after, ratio, its interval) as text. The ratio is of what is measured: 2× speed is faster."""
    scale = change.metric.scale
    values = number(change.before * scale), number(change.after * scale)
    ratio = inverse(change.ratio) if change.metric.more_is_better else change.ratio
    if ratio is None:
        return *values, "–", "–"
    return *values, f"{ratio.point:.2f}×", f"{ratio.low:.2f}–{ratio.high:.2f}"


def inverse(ratio: Estimate | None) -> Estimate | None:
    if ratio is None or ratio.low is None or ratio.high is None:
        return None
    return Estimate(1 / ratio.point, 1 / ratio.high, 1 / ratio.low, ratio.n)


def ordered(comparison: Changes) -> list[Change]:
    """What got worse first, the worst of it at the top; then what got better, undecided, unchanged."""
    order = (WORSE, BETTER, UNDECIDED, UNCHANGED)

    def key(change: Change) -> tuple[int, float]:
        return order.index(change.verdict) + change.barred, -abs(
            math.log(change.ratio.point)
        ) if change.ratio else -math.inf

    return sorted(comparison.changes, key=key)


def remarks(comparison: Changes) -> list[str]:
    """What a reader of the verdicts must know."""
    needed = seeds_words(comparison)
    lines = [*shift_words(comparison), *barred_words(comparison), *([needed] if needed else [])]
    return (
        [*lines, assumption_words(comparison)]
        if any(change.ratio for change in comparison.changes)
        else lines
    )


def markdown(comparison: Changes) -> str:
    """For a pull request: the verdict, what differs, the changes, and the rest folded away."""
    decided_changes = [change for change in ordered(comparison) if change.verdict in (WORSE, BETTER)]
    rest = [change for change in ordered(comparison) if change.verdict not in (WORSE, BETTER)]

    def table(changes: Sequence[Change]) -> list[str]:
        lines = [
            "| verdict | contestant | task | metric | before | after | ratio | 95 % interval |",
            "|---|---|---|---|---:|---:|---:|---:|",
        ]
        for change in changes:
            metric = f"{change.metric.title}, {change.metric.unit}"
            cells = (
                f"**{change.word}**" if change in decided_changes else change.word,
                f"`{change.contestant}`",
                change.setting,
                metric,
            )
            lines.append(f"| {' | '.join(map(escaped, (*cells, *figures(change))))} |")
        return lines

    lines = [f"**rldyno compare: {headline(comparison)}**", ""]
    lines += [f"`{comparison.names[0]}` → `{comparison.names[1]}`", ""]
    if comparison.other_differences:
        lines += [
            "> Other differences:",
            *(f"> - {escaped(line)}" for line in comparison.other_differences),
            "",
        ]
    if decided_changes:
        lines += [*table(decided_changes), ""]
    for said in remarks(comparison):
        lines += [escaped(said), ""]
    if rest:
        lines += [
            "<details><summary>unchanged, undecided or not judged</summary>",
            "",
            *table(rest),
            "",
            "</details>",
            "",
        ]
    if comparison.unmatched:
        lines += ["Not compared:", *(f"- {escaped(line)}" for line in comparison.unmatched), ""]
    return "\n".join(lines)


def escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")
