"""The answer in the terminal: one table per group, who won, then what speaks against it, each once."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rldyno.answers import fixes
from rldyno.answers.analysis import Analysis
from rldyno.answers.axes import folded_words
from rldyno.answers.doubts import doubts, worth_a_line
from rldyno.answers.groups import CPU, Group, MetricValue, Row, absences
from rldyno.answers.guests import guest_lines
from rldyno.answers.trust import BARRED, EQUAL
from rldyno.answers.wording import headline, outsiders, won_words
from rldyno.columns import Column
from rldyno.proofs.certificate import ABSENT, FAILED, GUEST, STALE
from rldyno.results.load import Results
from rldyno.stats.equivalence import DIFFERENT
from rldyno.stats.estimates import RANGE
from rldyno.text.numbers import factor, number, span
from rldyno.text.terminal import fits

# More groups than this are left to the report.
GROUPS_SHOWN = 12
AXES_SHOWN = 12
# Different words of one objection.
DOUBT_LINES = 3
WIDTH = 100
TABLE_WIDTH = 112
SHORT = {STALE: "proof out of date", ABSENT: "not proven", FAILED: "proof failed", GUEST: "guest"}


def print_answer(analysis: Analysis, console: Console) -> None:
    groups = analysis.comparisons
    for group in groups[:GROUPS_SHOWN]:
        if any(row.absent is None for row in group.rows):
            print_table(group, console)
    console.print(Text(legend(groups), "dim"), width=min(WIDTH, console.width))
    console.print()
    if len(groups) > 1:
        print_line(console, headline(groups), bold=True)
    for group in groups[:GROUPS_SHOWN]:
        print_line(console, won_words(group), bold=len(groups) == 1)
    if len(groups) > GROUPS_SHOWN:
        print_line(console, f"{len(groups) - GROUPS_SHOWN} more comparisons are in the report.")
    along_axes = folded_words(analysis.axis_answers)
    for line in along_axes[:AXES_SHOWN]:
        print_line(console, line)
    if (more := len(along_axes) - AXES_SHOWN) > 0:
        print_line(console, f"{more} more settings are in the report.")
    if analysis.results.trials["algorithm"].n_unique() > 1:
        print_line(console, "`rldyno advise` and the report compare the algorithms with each other.")
    for line in [
        *guest_lines(groups, analysis.results.hypers),
        *outsiders(groups),
        *doubt_lines(groups),
        *remarks(analysis.results, groups),
    ]:
        print_line(console, line)
    for fix in what_to_do(groups):
        print_fix(console, fix)


def doubt_lines(groups: Sequence[Group]) -> list[str]:
    """Why there is no answer, or what weakens it; the rest of a long list is in the report."""
    lines = []
    for doubt in doubts(groups, worth_a_line):
        name = "Reason" if doubt.level == BARRED else "Equal" if doubt.kind == EQUAL else "Doubt"
        lines += [f"{name}: {line}" for line in doubt.lines[:DOUBT_LINES]]
        if (more := len(doubt.lines) - DOUBT_LINES) > 0:
            lines.append(f"{name}: {doubt.name}, in {more} more ways (see the report).")
    return lines


def print_table(group: Group, console: Console) -> None:
    """In a narrow terminal closer together, then without the least important columns: none is cut off."""
    width = min(TABLE_WIDTH, console.width)
    metrics, left_out = list(group.metrics), []
    table = group_table(group, metrics, roomy=True)
    while not fits(table, console, width) and len(metrics) > 1:
        table = group_table(group, metrics, roomy=False)
        if fits(table, console, width):
            break
        # CPU time goes first: the times beside it say much the same.
        left_out.append(metrics.pop(metrics.index(CPU) if CPU in metrics else -1))
        table = group_table(group, metrics, roomy=False)
    console.print(table, width=width)
    if left_out:
        named = ", ".join(metric.words for metric in left_out)
        print_line(console, f"Too wide for this terminal, in the report: {named}.")
        console.print()


def legend(groups: Sequence[Group]) -> str:
    """Of the signs that the tables have."""
    rows = [row for group in groups[:GROUPS_SHOWN] for row in group.rows]
    figures = [
        figure for row in rows for figure in row.figures.values() if math.isfinite(figure.estimate.point)
    ]
    ranges = any(figure.estimate.kind == RANGE for figure in figures)
    said = {
        "Below each value: its 95 % interval over seeds"
        + (" (range: that of the runs, which are too few)." if ranges else "."): any(
            figure.estimate.low is not None for figure in figures
        ),
        "3.2×: that many times worse than the best.": any(
            figure.ratio is not None and not figure.first for figure in figures
        ),
        "✓: certified.": any(row.certified for row in rows),
        "✗: not certified, or learns differently; shown, but not ranked.": any(map(marked_wrong, rows)),
        "○: a guest, a script of its own; shown beside the others, not ranked.": any(
            row.guest for row in rows
        ),
    }
    return " ".join(words for words, there in said.items() if there)


def remarks(results: Results, groups: tuple[Group, ...]) -> list[str]:
    """What is absent or still missing, one line each."""
    lines = [
        f"Absent: `{one.contestant}`" + (f" ({one.place})" if one.place else "") + f": {one.why}"
        for one in absences(groups)
    ]
    lines += [f"Left out: {reason}." for reason in results.manifest.left_out]
    if results.pending:
        lines.append(f"{len(results.pending)} of {len(results.trials)} trials have not ended.")
    lines += [f"Left out: {flaw}." for flaw in results.flaws]
    return lines


def what_to_do(groups: tuple[Group, ...]) -> list[str]:
    """What would answer barred comparisons; if there is none, what would remove doubts."""
    barred = [group for group in groups if group.trust.barred]
    return list(fixes.folded(fix for group in barred or groups for fix in group.trust.fixes))


def group_table(group: Group, metrics: Sequence[Column], roomy: bool) -> Table:
    """In a narrow terminal columns move together and an interval may break after its dash."""
    table = Table(
        title=Text(group.label, style="bold"),
        title_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0) if roomy else (0, 0),
    )
    rows = [row for row in group.rows if row.absent is None]
    table.add_column("Contestant", no_wrap=True)
    for metric in metrics:
        head = Text(f"{metric.title}\n{metric.unit}", justify="right")
        cells = (cell(row, metric, roomy) for row in rows)
        table.add_column(head, justify="right", min_width=longest_word(head, *cells))
    table.add_column("Seeds", justify="right", min_width=6)
    for row in rows:
        figures = (cell(row, metric, roomy) for metric in metrics)
        table.add_row(contestant_cell(row), *figures, seeds_cell(row))
    return table


def longest_word(*texts: Text) -> int:
    """Narrower than this a column would cut a figure off."""
    return max(len(word) for text in texts for word in text.plain.split())


def marked_wrong(row: Row) -> bool:
    unlike = row.parity is not None and row.parity.state == DIFFERENT
    return not row.guest and (not row.certified or unlike)


def contestant_cell(row: Row) -> Text:
    unmarked = Text("○ ") if row.guest else Text("✓ ", "green")
    mark = Text("✗ ", "red") if marked_wrong(row) else unmarked
    text = mark + Text(row.contestant)
    if not row.certified:
        return text + Text(f"\n  {SHORT[row.certificate]}", "" if row.guest else "red")
    return text + Text("\n  learns differently", "red") if marked_wrong(row) else text


def cell(row: Row, metric: Column, roomy: bool) -> Text:
    figure = row.figures.get(metric.name)
    if figure is None:
        return Text("–", "dim")
    if math.isinf(figure.estimate.point):
        return Text(figure.note or "not reached", "dim")
    first = Text(number(figure.estimate.point * metric.scale), "bold green" if figure.best else "")
    if figure.ratio is not None and not figure.first:
        first += Text(f" {factor(figure.ratio.point)}")
    return Text("\n").join([first, *small_print(figure, metric, roomy)])


def small_print(figure: MetricValue, metric: Column, roomy: bool) -> list[Text]:
    ends = span(figure.estimate, metric.scale, "–" if roomy else "– ")
    return [Text(line, "dim") for line in (ends, figure.note) if line]


def seeds_cell(row: Row) -> Text:
    text = Text(str(row.done))
    if row.failed:
        text += Text(f"\n{row.failed} failed", "red")
    if row.pending:
        text += Text(f"\n{row.pending} pending", "dim")
    return text


def print_line(console: Console, text: str, bold: bool = False) -> None:
    console.print(Text(text, "bold" if bold else ""), width=min(WIDTH, console.width), soft_wrap=False)


def print_fix(console: Console, fix: str) -> None:
    """A command at its end gets a line of its own that is never broken: it is there to be copied."""
    words, _, command = fix.removesuffix("`").rpartition("`")
    if fix.endswith("`") and command.startswith("rldyno "):
        print_line(console, words.rstrip())
        console.print(Text(f"  {command}"), soft_wrap=True)
    else:
        print_line(console, fix)
