"""Why a contestant is faster, in a sentence, a table and JSON."""

from __future__ import annotations

from collections.abc import Sequence

from rldyno.answers.why import PHASES, Phase, Split, Why
from rldyno.records.files import Json
from rldyno.stats.estimates import Estimate
from rldyno.text.numbers import decimals, factor, interval, number
from rldyno.text.tables import Table

# The sentence names phases until this much of the difference is explained, and no more than three.
ENOUGH = 0.9
MOST_PHASES = 3
# A share below this goes unnamed.
LEAST_SHARE = 0.05
NONE = "–"
# Of a microsecond: what is less is shown as 0.
SMALLEST = 0.005


def sentence(found: Why, doubts: bool = True) -> str:
    """Who is how much faster, and in which phases; of a barred pair the values alone.

    Without `doubts` where another place has those that do not bar.
    """
    split = found.split
    if not found.said:
        values = f"`{found.fast}` {us(split.fast_us)} µs and `{found.slow}` {us(split.slow_us)} µs"
        return f"A step takes {values}. {found.trust.words}"
    assert split.ratio is not None
    size = f"{factor(split.ratio.point)} {interval(split.ratio) or ''}".rstrip()
    said = f"`{found.fast}` is {size} as fast as `{found.slow}`: {phases_words(split)}."
    return f"{said} {found.trust.words}".rstrip() if doubts else said


def phases_words(split: Split) -> str:
    """`71 % of the difference is update, 24 % act`, and in which phases the slower one gains."""
    named: list[Phase] = []
    for phase in split.phases[:MOST_PHASES]:
        if phase.gap.share.point < LEAST_SHARE or sum(one.gap.share.point for one in named) > ENOUGH:
            break
        named.append(phase)
    (first, *others) = named or split.phases[:1]
    said = ", ".join(
        [
            f"{percent(first)} of the difference is `{first.name}`",
            *(f"{percent(one)} `{one.name}`" for one in others),
        ]
    )
    back = [phase for phase in split.phases if phase.gap.share.point < -LEAST_SHARE]
    if not back:
        return said
    lost = ", ".join(f"`{one.name}` ({us(-one.gap.difference.point)} µs)" for one in back)
    return f"{said}; in {lost} it is the slower one"


def percent(phase: Phase) -> str:
    return f"{round(100 * phase.gap.share.point)} %"


def us(value: float) -> str:
    """Microseconds: hundredths at most, and no sign before zero."""
    return number(value, min(2, decimals(value))) if abs(value) >= SMALLEST else "0.00"


def split_table(found: Why) -> Table:
    """Without differences where the pair is barred. Calls and costs are those of the first and the second."""
    barred = found.trust.barred
    split = () if barred else ("Difference", "Share", "By calls", "By cost")
    columns = ("Phase", found.fast, found.slow, *split, "Calls per step", "µs per call")
    rows = [phase_row(phase, barred) for phase in found.split.phases]
    return Table("why", f"{found.group.label}: µs per step", columns, (*rows, whole_row(found)))


def phase_row(phase: Phase, barred: bool) -> tuple[str, ...]:
    gap = phase.gap
    split = (with_span(gap.difference), percent(phase), with_span(gap.by_calls), with_span(gap.by_cost))
    return (
        phase.name,
        us(phase.fast.us),
        us(phase.slow.us),
        *(() if barred else split),
        both(phase.fast.calls, phase.slow.calls),
        both(phase.fast.us_per_call, phase.slow.us_per_call),
    )


def whole_row(found: Why) -> tuple[str, ...]:
    split = found.split
    whole = () if found.trust.barred else (with_span(split.difference), "100 %", NONE, NONE)
    return ("whole step", us(split.fast_us), us(split.slow_us), *whole, NONE, NONE)


def both(fast: float | None, slow: float | None) -> str:
    """Of the first and the second; once where they are the same."""
    if fast is None or slow is None:
        return NONE
    first, second = (number(value, min(4, decimals(value))) for value in (fast, slow))
    return first if first == second else f"{first} and {second}"


def with_span(estimate: Estimate | None) -> str:
    """`12.3 [11.0, 13.1]` microseconds."""
    if estimate is None:
        return NONE
    if estimate.low is None or estimate.high is None:
        return us(estimate.point)
    places = min(2, decimals(estimate.point)) if abs(estimate.point) >= SMALLEST else 2
    # + 0: no sign before zero.
    low, high = (number(round(end, places) + 0.0, places) for end in (estimate.low, estimate.high))
    return f"{us(estimate.point)} [{low}, {high}]"


def remarks(found: Why) -> list[str]:
    """What the table cannot show, one line each."""
    lines = [
        f"`{name}` is not proven to compute what the reference computes ({state})."
        for name, state in found.unproven
    ]
    lines += counter_words(found)
    if found.uncounted:
        lines.append(f"Calls of some phases are not known: {found.uncounted}.")
    return lines


def counter_words(found: Why) -> list[str]:
    if found.trust.barred:
        return []
    if not found.counters:
        return [f"Instructions and cycles are not known: {found.no_counters}."] if found.no_counters else []
    said = ", ".join(
        f"{factor(one.ratio.point)} {interval(one.ratio) or ''}".rstrip()
        + f" as many {one.name.replace('_', ' ')}"
        for one in found.counters
        if one.ratio is not None
    )
    return [f"Per step, start-up included, `{found.slow}` has {said}."] if said else []


# --- JSON ---------------------------------------------------------------------------------------------------


def why_json(found: Why) -> Json:
    barred = found.trust.barred
    return {
        "comparison": found.group.label,
        "sentence": sentence(found),
        "trust": found.trust.level,
        "objections": [objection.to_json() for objection in found.trust.objections],
        "unproven": [name for name, _ in found.unproven],
        "contestants": [found.fast, found.slow],
        "us_per_step": [found.split.fast_us, found.split.slow_us],
        "times_as_fast": estimate_json(found.split.ratio) if found.said else None,
        "difference_us": None if barred else estimate_json(found.split.difference),
        "phases": [phase_json(phase, barred) for phase in found.split.phases],
        "counters": [
            {"name": one.name, "per_step": [one.fast, one.slow], "times_as_many": estimate_json(one.ratio)}
            for one in found.counters
        ],
        "no_counters": found.no_counters or None,
        "no_calls": found.uncounted or None,
    }


def phase_json(phase: Phase, barred: bool) -> Json:
    costs = (phase.fast, phase.slow)
    values = {
        "phase": phase.name,
        "us_per_step": [one.us for one in costs],
        "calls_per_step": [one.calls for one in costs],
        "us_per_call": [one.us_per_call for one in costs],
    }
    if barred:
        return values
    return values | {
        "difference_us": estimate_json(phase.gap.difference),
        "share": estimate_json(phase.gap.share),
        "from_calls_us": estimate_json(phase.gap.by_calls),
        "from_cost_us": estimate_json(phase.gap.by_cost),
    }


def estimate_json(estimate: Estimate | None) -> Json | None:
    return None if estimate is None else estimate.to_json()


def in_order(phases: Sequence[Phase]) -> list[Phase]:
    """As the phases follow one another in every chart."""
    return sorted(phases, key=lambda phase: PHASES.index(phase.name))
