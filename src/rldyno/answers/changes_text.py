"""Changes between two results directories as text: a headline, a table, Markdown for a pull request."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rldyno.answers.changes import BETTER, UNCHANGED, UNDECIDED, WORSE, Change, Changes
from rldyno.stats.bootstrap import Estimate
from rldyno.text.numbers import number


def headline(comparison: Changes) -> str:
    """`2 slower, 1 faster, 12 unchanged, 5 undecided (threshold 5 %)`."""
    counts: dict[str, int] = {}
    order = {WORSE: 0, BETTER: 1, UNCHANGED: 2, UNDECIDED: 3}
    for change in sorted(comparison.changes, key=lambda change: order[change.verdict]):
        counts[change.word] = counts.get(change.word, 0) + 1
    words = ", ".join(f"{count} {word}" for word, count in counts.items())
    return f"{words or 'nothing to compare'} (threshold {comparison.threshold * 100:g} %)"


def seeds_words(comparison: Changes) -> str | None:
    """How many more seeds the undecided changes need; None when nothing is undecided."""
    undecided = [change for change in comparison.changes if change.verdict == UNDECIDED]
    if not undecided:
        return None
    lone = sum(change.ratio is not None and change.ratio.low is None for change in undecided)
    if lone == len(undecided):
        return "with one seed the spread is unknown: run five or more in both sets"
    known = sorted(change.more_seeds for change in undecided if change.more_seeds is not None)
    if not known:
        return f"too few seeds to decide {len(undecided)}; no reasonable number would be enough"
    half = known[(len(known) - 1) // 2]
    decided = sum(more <= half for more in known)
    words = f"too few seeds to decide {len(undecided)}: about {half} more in both sets would decide {decided}"
    return words + (f", {known[-1]} more would decide {len(known)}" if known[-1] > half else "")


def figures(change: Change) -> tuple[str, str, str, str]:
    """(before, after, ratio, its interval) as text. The ratio is of what is measured: 2× speed is faster."""
    scale = change.metric.scale
    ratio = inverse(change.ratio) if change.metric.more_is_better else change.ratio
    if ratio is None:
        return (number(change.before.point * scale), number(change.after.point * scale), "–", "–")
    return (
        number(change.before.point * scale),
        number(change.after.point * scale),
        f"{ratio.point:.2f}×",
        "one seed" if ratio.low is None else f"{ratio.low:.2f}–{ratio.high:.2f}",
    )


def inverse(ratio: Estimate | None) -> Estimate | None:
    if ratio is None or ratio.low is None or ratio.high is None:
        return None if ratio is None else Estimate(1 / ratio.point, None, None, ratio.n)
    return Estimate(1 / ratio.point, 1 / ratio.high, 1 / ratio.low, ratio.n)


def ordered(comparison: Changes) -> list[Change]:
    """What got worse first, the worst of it at the top; then what got better, undecided, unchanged."""
    order = (WORSE, BETTER, UNDECIDED, UNCHANGED)

    def key(change: Change) -> tuple[int, float]:
        return order.index(change.verdict), -abs(math.log(change.ratio.point)) if change.ratio else -math.inf

    return sorted(comparison.changes, key=key)


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
    if needed := seeds_words(comparison):
        lines += [needed, ""]
    if rest:
        lines += [
            "<details><summary>unchanged and undecided</summary>",
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
