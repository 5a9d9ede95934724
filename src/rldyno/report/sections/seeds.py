"""How many seeds a study with adaptive seeds used, and why it stopped."""

from __future__ import annotations

import math

from rldyno.answers.adaptive import ENDINGS, latest_checks, state_words
from rldyno.answers.pairs import OPEN
from rldyno.records.interim import PairResult
from rldyno.records.manifest import AdaptiveSeeds
from rldyno.report.material import Material
from rldyno.report.section import Section
from rldyno.results.load import Results
from rldyno.text.numbers import counted
from rldyno.text.tables import Table

UNTIL = {
    "resolved": "every two neighbours in the ranking were shown to be different or equal",
    "winner": "every contestant was shown to be different from the first or equal to it",
}


def tables(material: Material) -> list[Table]:
    """None for a study with a fixed number of seeds, or before the first interim check."""
    manifest = material.results.manifest
    rule = manifest.adaptive
    last = latest_checks(manifest)
    if rule is None or not last:
        return []
    barred = {group.label for group in material.groups if group.trust.barred}
    decisions = tuple(
        (
            f"{pair.first} / {pair.second}",
            label,
            str(pair.seeds),
            *(("–", "–", "–", "no answer") if label in barred else figures(pair, rule)),
        )
        for label, group in last.items()
        for pair in group.pairs
    )
    columns = ("Comparison", "Task", "Seeds", "Times worse", "95 % interval", "Chance", "Decision")
    checks = tuple(
        (
            str(index),
            check.at,
            str(sum(len(group.pairs) for group in check.groups)),
            str(sum(pair.state == OPEN for group in check.groups for pair in group.pairs)),
            str(check.added),
        )
        for index, check in enumerate(rule.checks, 1)
    )
    return [
        Table("seeds", "The comparisons that decide the ranking", columns, decisions),
        Table(
            "interim-checks", "Interim checks", ("Check", "At", "Comparisons", "Open", "Trials added"), checks
        ),
    ]


def figures(pair: PairResult, rule: AdaptiveSeeds) -> tuple[str, str, str, str]:
    ratio = "–" if math.isnan(pair.ratio) else f"{pair.ratio:.2f}×"
    return ratio, bounds(pair), f"{pair.chance:.2g}", state_words(pair, rule)


def rule_words(results: Results) -> str | None:
    """The rule in two sentences, and what ended it; None for a fixed number of seeds."""
    rule = results.manifest.adaptive
    if rule is None:
        return None
    ended = rule.ended
    rest = f"It ended because {ENDINGS[ended]}." if ended else "It has not ended."
    left_out = {
        name: why
        for group in latest_checks(results.manifest).values()
        for name, why in group.left_out.items()
    }
    left = "".join(f" Not compared: `{name}` ({why})." for name, why in left_out.items())
    return (
        f"Every contestant ran {counted(rule.min, 'seed')}. Contestants of open comparisons then ran more "
        f"seeds, one at a time and at most {rule.max}, until {UNTIL[rule.until]} (a ratio below "
        f"{1 + rule.within:g} counts as equal). {rest}{left}"
    )


def bounds(pair: PairResult) -> str:
    low = f"{pair.low:.2f}" if pair.low else "0"
    return f"{low}–{'∞' if math.isinf(pair.high) else format(pair.high, '.2f')}"


SECTION = Section(
    id="seeds",
    order=40,
    title="How many seeds, and why it stopped",
    about="which pairs of contestants are decided, with how many seeds, and why the others are not",
    short="Seeds",
    tables=tables,
    context=lambda material: {"rule": rule_words(material.results)},
    shown=lambda material: material.results.manifest.adaptive is not None,
)
