"""How many seeds, and why it stopped: the looks at a study with adaptive seeds, as tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rldyno.answers.duels import OPEN, rule_of
from rldyno.answers.looks import ENDINGS, counted, latest, state_words
from rldyno.results.load import Results
from rldyno.text.tables import Table

UNTIL = {
    "resolved": "every two neighbours in the ranking were told apart or shown to be equal",
    "winner": "every contestant was told apart from the first or shown to be equal to it",
}


def seeds_tables(results: Results) -> tuple[Table, ...]:
    """None for a study with fixed seeds, or before the first look."""
    rule = rule_of(results.manifest)
    last = latest(results.manifest)
    if rule is None or not last:
        return ()
    decisions = tuple(
        (
            f"{duel['first']} / {duel['second']}",
            label,
            str(duel["seeds"]),
            "–" if duel["ratio"] is None else f"{duel['ratio']:.2f}×",
            bounds(duel),
            f"{duel['chance']:.2g}",
            state_words(duel, rule.within),
        )
        for label, group in last.items()
        for duel in group["duels"]
    )
    columns = ("Comparison", "Task", "Seeds", "Times worse", "95 % interval", "Chance", "Decision")
    looks = tuple(
        (
            str(index),
            str(look["at"]),
            str(sum(len(group["duels"]) for group in look["groups"])),
            str(sum(duel["state"] == OPEN for group in look["groups"] for duel in group["duels"])),
            str(look["added"]),
        )
        for index, look in enumerate(results.manifest["adaptive"]["looks"], 1)
    )
    return (
        Table("seeds", "The comparisons that decide the ranking", columns, decisions),
        Table("looks", "The looks", ("Look", "At", "Comparisons", "Open", "Trials added"), looks),
    )


def seeds_words(results: Results) -> str | None:
    """The rule in one sentence, and what ended it."""
    rule = rule_of(results.manifest)
    if rule is None:
        return None
    ended = results.manifest["adaptive"].get("ended")
    rest = f"It ended because {ENDINGS[ended]}." if ended else "It has not ended."
    left_out = {
        name: why
        for group in latest(results.manifest).values()
        for name, why in group.get("left_out", {}).items()
    }
    left = "".join(f" Not compared: `{name}` ({why})." for name, why in left_out.items())
    return (
        f"Every contestant ran {counted(rule.min, 'seed')}; then those of open comparisons ran more, "
        f"one at a time and at most {rule.max}, until {UNTIL[rule.until]} (ratios below "
        f"{1 + rule.within:g} are equal). {rest}{left}"
    )


def bounds(duel: Mapping[str, Any]) -> str:
    low = "0" if duel["low"] is None else f"{duel['low']:.2f}"
    return f"{low}–{'∞' if duel['high'] is None else format(duel['high'], '.2f')}"
