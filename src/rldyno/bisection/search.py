"""Where the figure moved: decided from what was measured so far, and from nothing else.

The first and the last release are compared. If they differ, halving finds the first release that lies nearer
to the last one; it and its predecessor are then compared directly, and that comparison alone is the answer.
Every comparison may be checked after each round: its interval holds at all numbers of rounds at once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from rldyno.bisection.question import Question
from rldyno.stats.anytime import mean_interval

Pair = tuple[str, str]
"""Old release, new release."""
Verdict = Literal["moved", "unchanged", "not shown"]
MOVED: Verdict = "moved"
UNCHANGED: Verdict = "unchanged"
NOT_SHOWN: Verdict = "not shown"


@dataclass(frozen=True)
class Round:
    """One pair of fresh processes: seconds of the figure in each."""

    old: str
    new: str
    old_s: float
    new_s: float

    @property
    def gap(self) -> float:
        return math.log(self.new_s / self.old_s)


@dataclass(frozen=True)
class Comparison:
    """All rounds of one pair; ratios are new / old."""

    old: str
    new: str
    rounds: int
    ratio: float
    low: float
    high: float
    old_s: float
    new_s: float
    verdict: Verdict | None
    """None: more rounds are needed."""

    @property
    def is_whole(self) -> bool:
        return self.verdict is not None


@dataclass(frozen=True)
class Finding:
    """The end of a search."""

    ends: Comparison | None
    """None where fewer than two releases could be measured."""
    step: Comparison | None
    """The two neighbours between which the figure moved."""
    comparisons: tuple[Comparison, ...]

    @property
    def found(self) -> bool:
        return self.step is not None and self.step.verdict == MOVED


@dataclass(frozen=True)
class Evidence:
    """What was measured so far."""

    question: Question
    releases: tuple[str, ...]
    """All of the range, in order."""
    rounds: tuple[Round, ...] = ()
    skipped: Mapping[str, str] | None = None
    """Release → why it cannot be measured."""

    @property
    def usable(self) -> tuple[str, ...]:
        return tuple(release for release in self.releases if release not in (self.skipped or {}))

    @property
    def error(self) -> float:
        """Of one comparison."""
        return self.question.error_of_each(len(self.releases))

    def gaps(self, pair: Pair) -> list[float]:
        return [one.gap for one in self.rounds if (one.old, one.new) == pair]

    def median_s(self, pair: Pair, side: Literal["old_s", "new_s"]) -> float:
        found = [getattr(one, side) for one in self.rounds if (one.old, one.new) == pair]
        return float(np.median(found)) if found else math.nan


def next_pair(evidence: Evidence) -> Pair | Finding:
    """What to measure next, or the answer."""
    usable = evidence.usable
    if len(usable) < 2:
        return Finding(None, None, ())
    ends = compare(evidence, (usable[0], usable[-1]))
    if not ends.is_whole:
        return ends.old, ends.new
    if ends.verdict != MOVED:
        return Finding(ends, None, comparisons_of(evidence))
    low, high = 0, len(usable) - 1
    middle_gap = math.log(ends.ratio) / 2
    while high - low > 1:
        middle = (low + high) // 2
        pair = usable[0], usable[middle]
        side = beyond(evidence, pair, middle_gap)
        if side is None:
            return pair
        low, high = (low, middle) if side else (middle, high)
    step = compare(evidence, (usable[low], usable[high]))
    return Finding(ends, step, comparisons_of(evidence)) if step.is_whole else (step.old, step.new)


def compare(evidence: Evidence, pair: Pair) -> Comparison:
    """Moved: by more than the threshold or, after all rounds, by more than the noise."""
    question, gaps = evidence.question, evidence.gaps(pair)
    low, high = mean_interval(np.array(gaps), evidence.error)
    within = math.log1p(question.threshold)
    verdict: Verdict | None = None
    if low > within or high < -within:
        verdict = MOVED
    elif low >= -within and high <= within:
        verdict = UNCHANGED
    elif len(gaps) >= question.most_rounds:
        verdict = MOVED if low > 0 or high < 0 else NOT_SHOWN
    return Comparison(
        pair[0],
        pair[1],
        rounds=len(gaps),
        ratio=math.exp(float(np.mean(gaps))) if gaps else math.nan,
        low=_exp(low),
        high=_exp(high),
        old_s=evidence.median_s(pair, "old_s"),
        new_s=evidence.median_s(pair, "new_s"),
        verdict=verdict,
    )


def _exp(gap: float) -> float:
    return math.exp(gap) if gap < 700 else math.inf


def beyond(evidence: Evidence, pair: Pair, middle_gap: float) -> bool | None:
    """Whether the new release lies nearer to the end of the range than to its start; None: not yet known.

    After the last round the mean decides: a wrong turn is found out when the neighbours are compared.
    """
    gaps = np.array(evidence.gaps(pair)) / middle_gap
    if not len(gaps):
        return None
    low, high = mean_interval(gaps, evidence.error)
    if low > 1 or high < 1:
        return bool(low > 1)
    return bool(gaps.mean() > 1) if len(gaps) >= evidence.question.most_rounds else None


def comparisons_of(evidence: Evidence) -> tuple[Comparison, ...]:
    """Of every pair that was measured, in the order of its first round."""
    pairs: Sequence[Pair] = list(dict.fromkeys((one.old, one.new) for one in evidence.rounds))
    return tuple(compare(evidence, pair) for pair in pairs)
