"""From a check to its verdict: the effect's interval against the bounds that the claim sets."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rldyno.claims.curve_check import curve_check
from rldyno.claims.effects import (
    HOLDS,
    REFUTED,
    UNDECIDED,
    CheckVerdict,
    Effect,
    Part,
    Side,
    best_ratio_of,
    concluded,
    estimated,
    everywhere,
    more_seeds,
    ratio_of,
    trend_of,
    verdict_of,
)
from rldyno.claims.evidence import PLACE, Evidence, RunGroup, run_groups, setting_words
from rldyno.claims.form import HYPER, Check, Claim
from rldyno.claims.metrics import metric
from rldyno.claims.missing import disturbed, few_levels, few_seeds, lacking, unmeasured
from rldyno.claims.settings import along, by_setting, freed_columns, pair_label, varying
from rldyno.records.files import Json
from rldyno.stats.distributions import proportion_interval
from rldyno.stats.estimates import LEVEL, Estimate
from rldyno.stats.significance import all_pairs

# The same results give the same verdicts.
SEED = 20_260_102


@dataclass(frozen=True)
class ClaimVerdict:
    claim: Claim
    verdict: str
    checks: tuple[CheckVerdict, ...]

    @property
    def place(self) -> int:
        """Decided first; then what more or quieter runs could decide; then what needs another study."""
        if self.verdict != UNDECIDED:
            return 0
        return 1 if all(check.within_reach for check in self.deciding) else 2

    @property
    def deciding(self) -> tuple[CheckVerdict, ...]:
        return tuple(check for check in self.checks if not check.check.reading)

    @property
    def readings(self) -> tuple[CheckVerdict, ...]:
        return tuple(check for check in self.checks if check.check.reading)

    @property
    def missing(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(item for check in self.deciding for item in check.missing))


def judge(claims: Iterable[Claim], evidence: Evidence) -> tuple[ClaimVerdict, ...]:
    return tuple(judge_claim(claim, evidence) for claim in claims)


def judge_claim(claim: Claim, evidence: Evidence) -> ClaimVerdict:
    """Holds if every check holds, refuted if one is refuted; other readings do not count."""
    checks = tuple(judge_check(check, evidence) for check in claim.check)
    verdicts = {check.verdict for check in checks if not check.check.reading}
    verdict = REFUTED if REFUTED in verdicts else UNDECIDED if UNDECIDED in verdicts else HOLDS
    return ClaimVerdict(claim, verdict, checks)


def judge_check(check: Check, evidence: Evidence) -> CheckVerdict:
    missing = lacking(check, evidence.whole or evidence)
    if missing:
        return CheckVerdict(check, UNDECIDED, missing=tuple(missing))
    if barred := disturbed(check, evidence):
        return CheckVerdict(check, UNDECIDED, missing=barred, barred=True)
    return KINDS[check.kind](check, evidence, np.random.default_rng(SEED))


# --- the kinds of check -------------------------------------------------------------------------------------


def ratio_check(check: Check, evidence: Evidence, rng: np.random.Generator) -> CheckVerdict:
    """metric of A / metric of B, in every setting that has both."""
    freed = freed_columns({*check.a, *check.b})
    kept = [
        axis
        for axis in evidence.axes
        if axis not in freed and not (HYPER in freed and axis.startswith(HYPER))
    ]
    sides = [
        by_setting(run_groups(evidence, evidence.admitted(check.where, side), check.metric, rng), kept)
        for side in (check.a, check.b)
    ]
    shown = varying(evidence, [cell for side in sides for group in side.values() for cell in group], *freed)
    comparisons = []
    for key in sides[0].keys() & sides[1].keys():
        side_a, side_b = (represented(side[key], check) for side in sides)
        comparisons += [
            best_ratio_of(a, b, pair_label(a.cell, b.cell, freed, shown), metric(check.metric).more_is_better)
            for a, b in itertools.product(side_a, side_b)
            if a.cell.keys != b.cell.keys
        ]
    if not comparisons:
        why = "needs A and B in one and the same setting" if all(sides) else unmeasured(check.metric)
        return CheckVerdict(check, UNDECIDED, missing=(why,))
    return concluded(check, sorted(comparisons, key=lambda item: item.label))


def value_check(check: Check, evidence: Evidence, rng: np.random.Generator) -> CheckVerdict:
    """The metric itself, of every contestant and setting that `a` and `where` admit."""
    found = run_groups(evidence, evidence.admitted(check.where, check.a), check.metric, rng)
    shown = varying(evidence, found)
    return concluded(
        check,
        [
            Effect(
                ", ".join(filter(None, [cell.contestant, setting_words(cell.keys, shown)])),
                cell.point,
                cell.draws,
                cell.draws,
                (cell,),
            )
            for cell in found
        ],
        geometric=False,
    )


def share_check(check: Check, evidence: Evidence, rng: np.random.Generator) -> CheckVerdict:
    """The share of runs that reached the threshold: all settings together, or everywhere by `levels`."""
    rows = [
        row for row in evidence.admitted(check.where, check.a) if row.get("threshold_reached") is not None
    ]
    if not rows:
        return CheckVerdict(check, UNDECIDED, missing=(few_seeds(check.seeds, 0),))
    if few := tuple(few_levels(check.levels, rows, "has")):
        return CheckVerdict(check, UNDECIDED, missing=few)
    groups: dict[tuple[Any, ...], list[Json]] = {}
    for row in rows:
        key = tuple(row.get(name) for name in check.levels) if check.everywhere else ()
        groups.setdefault(key, []).append(row)
    level = 1 - (1 - LEVEL) / len(groups)
    parts = tuple(share_of(key, group, evidence.axes, level) for key, group in groups.items())
    fewest = min(part.effect.n for part in parts)
    if fewest < check.seeds:
        return CheckVerdict(check, UNDECIDED, parts[0].effect, parts, (few_seeds(check.seeds, fewest),))
    if check.everywhere:
        return everywhere(check, parts)
    effect = parts[0].effect
    verdict = verdict_of(effect, check.bounds)
    return CheckVerdict(check, verdict, effect, parts, more_seeds(verdict, effect, check.bounds))


# Runs of one seed that differ in nothing else learn the same: they are one run more, not several.
SAME_LEARNING = {"cores", "caches", *PLACE}


def share_of(key: tuple[Any, ...], rows: Sequence[Json], axes: Sequence[str], level: float) -> Part:
    learning = [axis for axis in axes if axis not in SAME_LEARNING]
    repeats: dict[tuple[Any, ...], list[bool]] = {}
    for row in rows:
        one = (row.get("seed"), *(row.get(axis) for axis in learning))
        repeats.setdefault(one, []).append(bool(row["threshold_reached"]))
    n, hits = len(repeats), sum(2 * sum(reached) > len(reached) for reached in repeats.values())
    low, high = proportion_interval(hits, n, level)
    label = " ".join([*map(str, key), f"{hits} of {n} {'runs' if n == len(rows) else 'seeds'}"])
    return Part(label, Estimate(hits / n, low, high, n), tuple(str(row["trial"]) for row in rows))


def trend_check(check: Check, evidence: Evidence, rng: np.random.Generator) -> CheckVerdict:
    """The factor by which the metric changes from the lowest to the highest value of the axis.

    By a straight line through log metric over log axis.
    """
    axis = check.axis or ""
    found = run_groups(evidence, evidence.admitted(check.where, check.a), check.metric, rng)
    kept = [name for name in evidence.axes if name != axis]
    comparisons = []
    for group in by_setting(along(axis, found), kept).values():
        numeric = [cell for cell in group if isinstance(cell.keys.get(axis), int | float)]
        if len({cell.keys[axis] for cell in numeric}) > 1:
            comparisons.append(trend_of(numeric, axis, varying(evidence, found, axis)))
    if not comparisons:
        return CheckVerdict(check, UNDECIDED, missing=(f"needs two values of {axis} in one setting",))
    return concluded(check, comparisons)


def same_check(check: Check, evidence: Evidence, rng: np.random.Generator) -> CheckVerdict:
    """The metric's ratio between every two values of the axis, in every setting."""
    axis = check.axis or ""
    found = run_groups(evidence, evidence.admitted(check.where, check.a), check.metric, rng)
    freed = freed_columns({axis})
    kept = [name for name in evidence.axes if name not in freed]
    comparisons = [
        ratio_of(
            first, second, f"{first.contestant}, {axis}: {first.keys.get(axis)} / {second.keys.get(axis)}"
        )
        for group in by_setting(along(axis, found), kept).values()
        for first, second in itertools.combinations(group, 2)
        if first.keys.get(axis) != second.keys.get(axis)
    ]
    if not comparisons:
        return CheckVerdict(check, UNDECIDED, missing=(f"needs two values of {axis} in one setting",))
    return concluded(check.model_copy(update={"everywhere": True}), comparisons)


def depends_check(check: Check, evidence: Evidence, rng: np.random.Generator) -> CheckVerdict:
    """Whether the best value of `axis` is another one for another value of `over`."""
    axis, over = check.axis or "", check.over or ""
    freed = freed_columns({axis})
    rows = evidence.admitted(check.where, check.a)
    kept = [name for name in evidence.axes if name not in freed and not name.startswith(HYPER)]
    winners: dict[tuple[object, ...], dict[object, object]] = {}
    margins: list[Part] = []
    unclear: list[str] = []
    groups = [
        group
        for group in by_setting(run_groups(evidence, rows, check.metric, rng), kept).values()
        if len(group) > 1
    ]
    if few := tuple(few_levels(check.levels, [cell.keys for group in groups for cell in group], "compared")):
        return CheckVerdict(check, UNDECIDED, missing=few)
    for group in groups:
        if min(cell.n for cell in group) < check.seeds:
            continue
        keys = group[0].keys
        best = clear_best(group, metric(check.metric).more_is_better)
        margins.append(margin_of(group, axis, over, metric(check.metric).more_is_better))
        if best is None:
            unclear.append(str(keys[over]))
        else:
            same_task = freed_columns({over})
            setting = tuple(keys[name] for name in kept if name not in same_task)
            winners.setdefault(setting, {})[keys[over]] = best.keys[axis]

    def with_margin(verdict: str, missing: tuple[str, ...] = ()) -> CheckVerdict:
        """With the narrowest margin as the effect."""
        narrowest = min(margins, key=lambda part: part.effect.point, default=None)
        if narrowest is None:
            return CheckVerdict(check, verdict, missing=missing)
        return CheckVerdict(check, verdict, narrowest.effect, tuple(margins), missing, narrowest.label)

    if any(len(set(by_level.values())) > 1 for by_level in winners.values()):
        return with_margin(HOLDS)
    if winners and not unclear and all(len(by_level) > 1 for by_level in winners.values()):
        return with_margin(REFUTED)
    wanted = f"a clear best {axis} on two or more values of {over}"
    return with_margin(UNDECIDED, (f"needs more seeds, or more of {over}: {wanted}",))


def margin_of(group: Sequence[RunGroup], axis: str, over: str, more_is_better: bool) -> Part:
    """By how much the best is better than the second, in the metric's unit."""
    best, second, *_ = sorted(group, key=lambda cell: cell.point, reverse=more_is_better)
    sign = 1 if more_is_better else -1
    draws = sign * (best.draws - second.draws)
    margin = Effect("", sign * (best.point - second.point), draws, draws, (best, second))
    label = f"{best.keys[over]}: {best.keys[axis]} before {second.keys[axis]}"
    return Part(label, estimated([margin], LEVEL, geometric=False), best.trials + second.trials)


KINDS: dict[str, Callable[[Check, Evidence, np.random.Generator], CheckVerdict]] = {
    "ratio": ratio_check,
    "value": value_check,
    "share": share_check,
    "trend": trend_check,
    "same": same_check,
    "depends": depends_check,
    "curve": curve_check,
}


# --- who stands for a framework, and who is best -----------------------------------------------------------


def represented(group: Sequence[RunGroup], check: Check) -> list[Side]:
    """Each contestant, or the best of each framework."""
    if check.represent == "each":
        return [Side(cell, (cell,)) for cell in group]
    sign = -1 if metric(check.metric).more_is_better else 1
    modes: dict[object, list[RunGroup]] = {}
    for cell in group:
        modes.setdefault(cell.keys["framework"], []).append(cell)
    return [Side(min(cells, key=lambda cell: sign * cell.point), tuple(cells)) for cells in modes.values()]


def clear_best(group: Sequence[RunGroup], more_is_better: bool) -> RunGroup | None:
    """The cell that beats every other: on logarithms, by log-rank where runs are censored; corrected."""
    best = (max if more_is_better else min)(group, key=lambda cell: cell.point)
    others = [cell for cell in group if cell is not best]
    if any(cell.adaptive for cell in group):
        level = 1 - (1 - LEVEL) / len(others)
        ratios = [estimated([ratio_of(best, cell, "")], level, geometric=True) for cell in others]
        return best if all(verdict_of(ratio, (1.0, None)) != UNDECIDED for ratio in ratios) else None
    names = {id(cell): str(index) for index, cell in enumerate(group)}
    found = all_pairs({names[id(cell)]: cell.values for cell in group})
    pairs = [found.get(frozenset((names[id(best)], names[id(cell)]))) for cell in others]
    return best if all(pair is not None and pair.p <= 1 - LEVEL for pair in pairs) else None


def as_json(found: ClaimVerdict) -> Json:
    return {
        "id": found.claim.id,
        "statement": found.claim.statement,
        "source": found.claim.source,
        "section": found.claim.section,
        "contradiction": found.claim.contradiction,
        "verdict": found.verdict,
        "missing": list(found.missing),
        "checks": [
            {
                "kind": item.check.kind,
                "metric": item.check.metric,
                "reading": item.check.reading,
                "bounds": list(item.check.bounds),
                "verdict": item.verdict,
                "effect": effect_json(item.effect),
                "missing": list(item.missing),
                "parts": [
                    {"label": part.label, "effect": effect_json(part.effect), "trials": list(part.trials)}
                    for part in item.parts
                ],
            }
            for item in found.checks
        ],
    }


def effect_json(effect: Estimate | None) -> Json | None:
    """Numbers that JSON has none for (a run that never got there) become null."""
    if effect is None:
        return None
    numbers = {"point": effect.point, "low": effect.low, "high": effect.high}
    return {
        name: value if value is not None and math.isfinite(value) else None for name, value in numbers.items()
    } | {"runs": effect.n}
