"""Verdicts as people read them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from rldyno.claims.decide import ClaimVerdict
from rldyno.claims.effects import HOLDS, REFUTED, UNDECIDED, CheckVerdict
from rldyno.claims.form import Check
from rldyno.claims.metrics import metric
from rldyno.stats.estimates import Estimate
from rldyno.text.numbers import interval, number
from rldyno.text.tables import markdown_escaped

STYLES = {HOLDS: "bold green", REFUTED: "bold red", UNDECIDED: "yellow"}
HEADINGS = (
    "Decided",
    "Undecided: more seeds or quieter runs of these trials could decide",
    "Undecided: needs other contestants, studies or hardware",
)
WIDTH = 110
PARTS_SHOWN = 6


def print_verdicts(found: Sequence[ClaimVerdict], console: Console) -> None:
    width = min(WIDTH, console.width)
    place = -1
    for verdict in decidable_first(found):
        if verdict.place != place:
            place = verdict.place
            console.print(Text(HEADINGS[place], "bold"), width=width)
        first = Text.assemble(
            (verdict.claim.id, "bold"), "  ", (verdict.verdict, STYLES[verdict.verdict]), "  "
        )
        console.print(first + Text(verdict.claim.statement), width=width)
        for line in lines(verdict):
            console.print(Padding(Text(line, "dim"), (0, 0, 0, 2), expand=False), width=width)
    console.print(Text(summary(found), "bold"), width=width)


def markdown(found: Sequence[ClaimVerdict]) -> str:
    """A list with an item for each claim, in the order of the source."""
    said = [summary(found), ""]
    for verdict in found:
        said.append(
            f"- `{verdict.claim.id}` **{verdict.verdict}**: {markdown_escaped(verdict.claim.statement)}."
        )
        said += [f"  - {markdown_escaped(line)}" for line in lines(verdict)]
    return "\n".join(said) + "\n"


def decidable_first(found: Sequence[ClaimVerdict]) -> list[ClaimVerdict]:
    return sorted(found, key=lambda verdict: verdict.place)


def lines(verdict: ClaimVerdict) -> list[str]:
    said = [line for check in verdict.deciding for line in check_lines(check)]
    said += list(verdict.missing)
    for check in verdict.readings:
        said.append(f"Read as “{check.check.reading}”: {'; '.join([check.verdict, *check.missing])}")
        said += check_lines(check)
    claim = verdict.claim
    if claim.contradiction:
        said.append(f"The source contradicts itself: {claim.contradiction}")
    if claim.note and any(check.verdict != UNDECIDED for check in verdict.checks):
        said.append(f"Interpreted as: {claim.note}")
    return said


def check_lines(check: CheckVerdict) -> list[str]:
    """The effect, and that of each part."""
    if check.effect is None:
        return []
    said = [effect_line(check)]
    if len(check.parts) > 1:
        said += [
            f"· {part.label}: {effect_words(part.effect, check.check)}" for part in check.parts[:PARTS_SHOWN]
        ]
    if len(check.parts) > PARTS_SHOWN:
        said.append(f"· … and {len(check.parts) - PARTS_SHOWN} more; --json has them all")
    return said


def effect_line(check: CheckVerdict) -> str:
    assert check.effect is not None
    decisive = check.decisive or (check.parts[0].label if len(check.parts) == 1 else "")
    label = f", {decisive}" if decisive else ""
    what = subject(check.check) + label
    trials = len({trial for part in check.parts for trial in part.trials})
    words = effect_words(check.effect, check.check)
    claim = "" if check.check.kind == "depends" else f"claimed {claimed(check.check)}; "
    return f"{what}: {words}; {claim}{trials} trials"


def subject(check: Check) -> str:
    if check.kind == "curve":
        return "Return above the external curve"
    return metric(check.metric).words


def effect_words(effect: Estimate, check: Check) -> str:
    scale, unit = scale_of(check)
    if check.kind == "ratio" and metric(check.metric).censored_at and not 0 < effect.point < math.inf:
        return f"no ratio: {who_got_there(effect.point)} in half of its runs"
    return " ".join(filter(None, [f"{number(effect.point * scale)}{unit}", interval(effect, scale)]))


def who_got_there(ratio: float) -> str:
    """Of the two sides of a figure that a run may never reach, which is ∞ then: 0 is a / ∞, NaN is ∞ / ∞."""
    if math.isnan(ratio):
        return "neither side got there"
    return f"only the {'first' if ratio == 0 else 'second'} got there"


def claimed(check: Check) -> str:
    scale, unit = scale_of(check)
    low, high = (None if bound is None else number(bound * scale) for bound in check.bounds)
    if low is not None and high is not None:
        return f"{low}–{high}{unit}"
    return f"≥ {low}{unit}" if low is not None else f"≤ {high}{unit}"


def scale_of(check: Check) -> tuple[float, str]:
    """Factors for comparisons, percent for shares, the metric's unit for values."""
    if check.kind == "share":
        return 100.0, " %"
    if check.kind == "curve":
        return 1.0, " spreads"
    if check.kind in ("value", "depends"):
        measure = metric(check.metric)
        return measure.scale, f" {measure.unit}" if measure.unit not in ("", "×") else measure.unit
    return 1.0, "×"


def summary(found: Sequence[ClaimVerdict]) -> str:
    counts = Counter(verdict.verdict for verdict in found)
    held, refuted, undecided = (counts[verdict] for verdict in (HOLDS, REFUTED, UNDECIDED))
    plural = "" if len(found) == 1 else "s"
    words = f"{len(found)} claim{plural}: {held} hold, {refuted} refuted, {undecided} undecided"
    near = sum(verdict.place == 1 for verdict in found)
    return f"{words} (more or quieter runs could decide {near})." if near else f"{words}."
