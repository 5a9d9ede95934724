"""One metric of one contestant and setting in two sessions: by how much it changed, and how sure that is."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rldyno.answers.pairs import Seeded
from rldyno.answers.trust import Objection
from rldyno.columns import Column
from rldyno.stats.censored import survival_median
from rldyno.stats.distributions import ALPHA
from rldyno.stats.estimates import Estimate
from rldyno.stats.moments import Floats
from rldyno.stats.sessions import SessionRatio, session_ratio
from rldyno.stats.significance import holm, log_rank

BETTER, WORSE, UNCHANGED, UNDECIDED = "better", "worse", "unchanged", "undecided"
WORDS = {
    "time": {BETTER: "faster", WORSE: "slower"},
    "size": {BETTER: "smaller", WORSE: "larger"},
}
UNIT_WORDS = {"MB": "size"} | dict.fromkeys(("s", "µs", "steps/s", "1/s"), "time")


@dataclass(frozen=True)
class Change:
    """`ratio` says how many times worse the second is than the first."""

    contestant: str
    setting: str
    metric: Column
    before: float
    after: float
    """Typical values of the runs compared; infinite where half of them never reached the threshold."""
    ratio: Estimate | None
    """Of the two; None where one is infinite, or where the comparison is barred."""
    verdict: str
    chance: float | None = None
    """Of such a difference without a change, corrected for all verdicts of the comparison."""
    more_seeds: int | None = None
    """Seeds that decide an undecided change with 80 % chance; None where it is decided, or hopeless."""
    objections: tuple[Objection, ...] = ()

    @property
    def word(self) -> str:
        if self.barred:
            return "not judged"
        return WORDS.get(UNIT_WORDS.get(self.metric.unit, ""), {}).get(self.verdict, self.verdict)

    @property
    def barred(self) -> bool:
        return any(objection.bars for objection in self.objections)


@dataclass(frozen=True)
class Measured:
    """One metric in both sessions, before the verdict: it depends on how many verdicts there are."""

    contestant: str
    setting: str
    metric: Column
    before: Floats
    after: Floats
    """Rows of (value, reached). Where seeds are shared, those of one place are of one seed."""
    paired: bool
    objections: tuple[Objection, ...]

    @property
    def complete(self) -> bool:
        """Every run got there, and every value has a logarithm."""
        return bool(
            all((runs[:, 1] > 0).all() and (runs[:, 0] > 0).all() for runs in (self.before, self.after))
        )

    @property
    def judged(self) -> bool:
        testable = self.complete or self.metric.censored_at is not None
        enough = min(len(self.before), len(self.after)) > 1  # damaged records may leave one
        return testable and enough and not any(objection.bars for objection in self.objections)

    @property
    def ratio(self) -> SessionRatio | None:
        """How many times worse, on the logarithmic scale."""
        if not (self.judged and self.complete):
            return None
        old, new = self.before[:, 0], self.after[:, 0]
        worse, better = (old, new) if self.metric.more_is_better else (new, old)
        return session_ratio(better, worse, paired=self.paired)

    @property
    def chance(self) -> float:
        """Before any correction. Where runs never got there, a log-rank test."""
        ratio = self.ratio
        return log_rank(self.after, self.before) if ratio is None else ratio.difference.p_nonzero()

    def typical(self, runs: Floats) -> float:
        """The geometric mean, whose ratio is that of the pairs; the median where runs never got there."""
        if self.complete:
            return float(np.exp(np.log(runs[:, 0]).mean()))
        return float(survival_median(runs)) if self.metric.censored_at else float(runs[:, 0].mean())


def measure(
    contestant: str,
    setting: str,
    metric: Column,
    runs: tuple[Seeded, Seeded],
    objections: Iterable[Objection],
) -> Measured | None:
    """None where either session has nothing to say about the metric. Seeds that both have are compared."""
    before, after = runs
    if not before or not after:
        return None
    shared = [seed for seed in before if seed in after]
    paired = len(shared) > 1
    old, new = (
        np.array([found[seed] for seed in (shared if paired else found)], dtype=np.float64)
        for found in (before, after)
    )
    return Measured(contestant, setting, metric, old, new, paired, tuple(objections))


def judge_all(measured: Sequence[Measured], threshold: float) -> tuple[Change, ...]:
    """A family-wise error of 5 % over all of them (Holm)."""
    judged = [one for one in measured if one.judged]
    corrected = iter(holm([one.chance for one in judged]))
    chances = [next(corrected) if one.judged else None for one in measured]
    # What Holm asks of the next that is not shown yet.
    error = ALPHA / max(1, sum(chance is not None and chance > ALPHA for chance in chances))
    return tuple(judge(one, chance, threshold, error) for one, chance in zip(measured, chances, strict=True))


def judge(one: Measured, chance: float | None, threshold: float, error: float) -> Change:
    before, after = one.typical(one.before), one.typical(one.after)
    change = Change(
        one.contestant, one.setting, one.metric, before, after, None, UNDECIDED, chance, None, one.objections
    )
    if chance is None:
        return change
    found, margin = one.ratio, math.log1p(threshold)
    if found is None:
        # Runs that never got there: the later median is the worse one.
        moved = times_worse(before, after, threshold)
        return replace(change, verdict=moved if chance <= ALPHA else UNDECIDED)
    mean, (low, high) = found.sampling.mean, found.bounds
    verdict = UNDECIDED
    if chance <= ALPHA and abs(mean) > margin:
        verdict = WORSE if mean > 0 else BETTER
    elif found.p_within(margin) <= ALPHA:
        verdict = UNCHANGED
    more = found.more_seeds(margin, error) if verdict == UNDECIDED else None
    ratio = Estimate(math.exp(mean), math.exp(low), math.exp(high), found.n)
    return replace(change, ratio=ratio, verdict=verdict, more_seeds=more)


def times_worse(before: float, after: float, threshold: float) -> str:
    if before == after:
        return UNDECIDED
    if after > before * (1 + threshold):
        return WORSE
    return BETTER if before > after * (1 + threshold) else UNDECIDED
