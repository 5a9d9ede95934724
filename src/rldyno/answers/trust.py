"""What may be said of a comparison: every sentence, table, chart and command asks here.

A comparison is one group by one metric. An objection either bars it (values are shown, but no winner, no
ratio and no superlative) or weakens it (the answer stands, with the doubt beside it).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from rldyno.answers import fixes
from rldyno.answers.machines import several_kinds
from rldyno.answers.ranking import EXPECTED
from rldyno.columns import Column
from rldyno.proofs.certificate import ABSENT, GUEST, STALE, VALID
from rldyno.records.files import Json
from rldyno.records.manifest import Task
from rldyno.results.load import Results
from rldyno.stats.equivalence import DIFFERENT, UNDECIDED
from rldyno.stats.estimates import ENOUGH_RUNS
from rldyno.stats.power import POWER
from rldyno.study.origins import untuned_words
from rldyno.text.numbers import number

if TYPE_CHECKING:
    from rldyno.answers.groups import Group, MetricValue, Row
    from rldyno.answers.learned import Unlearned
    from rldyno.answers.runs import Runs

CLEAR, UNSURE, BARRED = "clear", "unsure", "barred"

ALONE, UNMEASURED, UNREACHED, SEEDS, NOISE = "alone", "unmeasured", "unreached", "seeds", "noise"
CERTIFICATE, UNLEARNED, PARITY, CHANCE = "certificate", "unlearned", "parity", "chance"
EQUAL, PENDING, UNTUNED, CACHES, MACHINES = "equal", "pending", "untuned", "caches", "machines"
BUDGET = "budget"

KINDS = {
    ALONE: "nobody else could be ranked",
    UNMEASURED: "not measured",
    UNREACHED: "threshold not reached",
    SEEDS: "too few seeds",
    NOISE: "a disturbed machine",
    CERTIFICATE: "somebody better is not proven",
    UNLEARNED: "nobody learned",
    PARITY: "equal learning not shown",
    CHANCE: "may be chance",
    EQUAL: "the first two are equal",
    PENDING: "trials not ended",
    UNTUNED: "not tuned",
    CACHES: "unknown caches",
    MACHINES: "different machines",
    BUDGET: "unequal budgets",
}
"""Objections in a few words."""

# At this noise score a trial lost a quarter of its CPU time; more than half such trials bar a comparison.
TOO_NOISY = 0.25


@dataclass(frozen=True)
class Objection:
    kind: str
    bars: bool
    """True: no winner and no ratio may be named. False: the answer stands, with this doubt beside it."""
    words: str
    """One sentence."""
    fix: str = ""
    """What to do, in a sentence or a command; empty where nothing helps."""

    def to_json(self) -> Json:
        return asdict(self)


@dataclass(frozen=True)
class Trust:
    objections: tuple[Objection, ...] = ()

    @property
    def level(self) -> str:
        if any(objection.bars for objection in self.objections):
            return BARRED
        return UNSURE if any(objection.kind != EQUAL for objection in self.objections) else CLEAR

    @property
    def barred(self) -> bool:
        return self.level == BARRED

    @property
    def tied(self) -> bool:
        """Whether nobody may be called first: the difference may be chance, or is shown to be none."""
        return self.about(CHANCE) is not None or self.about(EQUAL) is not None

    @property
    def reasons(self) -> tuple[Objection, ...]:
        """What decides the level: the bars where there are any, else the doubts."""
        return tuple(objection for objection in self.objections if objection.bars == self.barred)

    @property
    def words(self) -> str:
        return " ".join(objection.words for objection in self.reasons)

    @property
    def fixes(self) -> tuple[str, ...]:
        """Each once. What is measured anew needs no more seeds, and a changed study no repetition."""
        bars = {objection.kind for objection in self.objections if objection.bars}
        needless = {NOISE, SEEDS} if UNREACHED in bars else {SEEDS} if NOISE in bars else set()
        return fixes.folded(item.fix for item in self.reasons if item.kind not in needless)

    def about(self, kind: str) -> Objection | None:
        return next((objection for objection in self.objections if objection.kind == kind), None)


def trust_of(results: Results, group: Group, metric: Column) -> Trust:
    """The objections to a comparison whose figures of this metric were compared with the best."""
    found = (rule(results, group, metric) for rule in RULES)
    return Trust(tuple(objection for objection in found if objection is not None))


def alone(results: Results, group: Group, metric: Column) -> Objection | None:
    if len(group.ranked) > 1:
        return None
    outside = [row for row in group.rows if row.unranked is not None]
    why = "; ".join(f"`{row.contestant}`: {row.unranked}" for row in outside)
    who = f"Only `{group.ranked[0].contestant}`" if group.ranked else "No contestant"
    words = f"{who} can be ranked" + (f" ({why})." if why else ".")
    unproven = [row for row in outside if row.done and not row.failed and not (row.certified or row.guest)]
    if unproven:
        fix = proof_fix(results, unproven)
    elif any(row.failed for row in outside):
        fix = fixes.repeat_failed(results)
    else:
        unlike = any(row.parity is not None and row.parity.state == DIFFERENT for row in outside)
        fix = fixes.more_contestants(results, unlike)
    return Objection(ALONE, True, words, fix)


def unmeasured(results: Results, group: Group, metric: Column) -> Objection | None:
    if metric.censored_at and group.stop_return is None:
        words = "The study has no stop rule, so it is not known when a run has learned."
        return Objection(UNMEASURED, True, words, fixes.stop_rule(results))
    if len(group.ranked) < 2 or len(compared(group, metric)) > 1:
        return None
    reason = results.why_empty(metric.name, group.trials["trial"])
    words = f"{metric.heading} could not be measured" + (f": {reason}." if reason else ".")
    return Objection(UNMEASURED, True, words, fixes.measurable())


def unreached(results: Results, group: Group, metric: Column) -> Objection | None:
    rows = compared(group, metric)
    if not metric.censored_at or not rows or math.isfinite(point(rows[0], metric)):
        return None
    words = f"No contestant reached a mean return of {group.stop_return:g} within the budget."
    few = min(row.done for row in group.ranked) < ENOUGH_RUNS
    return Objection(UNREACHED, True, words, fixes.larger_budget(results, few))


def seeds(results: Results, group: Group, metric: Column) -> Objection | None:
    if len(group.ranked) < 2:
        return None
    fewest = min(row.done for row in group.ranked)
    first_two = compared(group, metric)[:2]
    if fewest > 1 and first_two:
        fewest = min(row.done for row in first_two)
        figure = first_two[-1].figures[metric.name]
        if results.manifest.adaptive is not None and settled(figure):
            return None
        if figure.more_seeds is not None:
            return few_seeds(results, fewest, fixes.deciding_seeds(results, fewest, figure.more_seeds))
    return few_seeds(results, fewest)


def few_seeds(results: Results, fewest: int, fix: str = "") -> Objection | None:
    if fewest >= ENOUGH_RUNS:
        return None
    one = fewest < 2
    words = "With one seed the spread is unknown." if one else f"{fewest} seeds are too few to be sure."
    return Objection(SEEDS, one, words, fix or fixes.enough_seeds(results))


def noise(results: Results, group: Group, metric: Column) -> Objection | None:
    """A difference that the disturbance cannot explain stands, with the doubt beside it."""
    if len(group.ranked) < 2:
        return None
    found = disturbed(results, [group.runs[row.contestant] for row in group.ranked])
    if found is None or not found.bars or may_be_noise(group, metric):
        return found
    return beyond_noise(found)


def beyond_noise(found: Objection) -> Objection:
    """The same doubt, of a difference that it cannot explain."""
    return replace(found, bars=False, words=f"{found.words} The difference is larger than that explains.")


def noise_explains(ratio: float, slower: Runs) -> bool:
    """Whether these runs could have been so many times as fast on a quiet machine.

    A trial with noise score s may have lost s of each second that it needed: it took at most 1 + s times as
    long. Noise of the faster only makes the true difference larger.
    """
    return ratio <= 1 + float(slower.known("noise_score").mean())


def may_be_noise(group: Group, metric: Column) -> bool:
    """Whether the runner-up could be as good as the first on a quiet machine."""
    rows = compared(group, metric)
    if len(rows) < 2 or not math.isfinite(point(rows[0], metric)):
        return True
    first, second = (abs(point(row, metric)) for row in rows[:2])
    ratio = max(first, second) / min(first, second) if min(first, second) > 0 else 1.0
    return noise_explains(ratio, group.runs[rows[1].contestant])


def disturbed(results: Results, runs: Sequence[Runs]) -> Objection | None:
    """More than half of the trials bar."""
    scores = np.concatenate([done.known("noise_score") for done in runs])
    count = int((scores > TOO_NOISY).sum())
    if not count:
        return None
    share = f"{count} of {len(scores)} trials"
    words = f"{share} ran on a disturbed machine (noise score above {TOO_NOISY:g})."
    if count <= len(scores) / 2:
        return Objection(NOISE, False, words, fixes.repeat_disturbed(results, TOO_NOISY))
    few = min(map(len, runs)) < ENOUGH_RUNS
    return Objection(NOISE, True, words, fixes.quieter(results, few))


def unproven_runs(results: Results, contestant: str, certificates: Iterable[str]) -> Objection | None:
    """To runs of one contestant with these certificates."""
    lacking = {found for found in certificates if found not in (VALID, GUEST)}
    if not lacking:
        return None
    words = f"`{contestant}` is not proven to compute what the reference computes."
    return Objection(CERTIFICATE, True, words, fixes.prove(results, STALE in lacking))


def certificate(results: Results, group: Group, metric: Column) -> Objection | None:
    """Somebody who may only lack a proof has the better value."""
    unproven = [row for row in group.outdoing(metric) if row.certificate in (STALE, ABSENT)]
    if len(group.ranked) < 2 or not unproven:
        return doubted(results, group)
    verb = "is" if len(unproven) == 1 else "are"
    words = f"{names(unproven)}, with a better value, {verb} not proven to compute the same."
    return Objection(CERTIFICATE, False, words, proof_fix(results, unproven))


def doubted(results: Results, group: Group) -> Objection | None:
    """Of ranked contestants: their certificates are valid, but less is proven than today."""
    found = [row for row in group.ranked if row.certificate_detail is not None]
    if not found:
        return None
    words = f"{names(found)}: {found[0].certificate_detail}."
    return Objection(CERTIFICATE, False, words, fixes.prove(results, stale=True))


def proof_fix(results: Results, unproven: list[Row]) -> str:
    return fixes.prove(results, any(row.certificate == STALE for row in unproven))


def unlearned(results: Results, group: Group, metric: Column) -> Objection | None:
    """Speeds can be compared all the same, but they are not speeds of learning."""
    found = group.unlearned
    if found is None:
        return None
    return Objection(UNLEARNED, False, unlearned_words(found), fixes.learnable(results))


def unlearned_words(found: Unlearned) -> str:
    return (
        f"Nobody learned: the mean return is {number(found.end)} at the end of the runs, "
        f"{number(found.start)} at their start."
    )


def parity(results: Results, group: Group, metric: Column) -> Objection | None:
    open_still = [row for row in group.ranked if row.parity is not None and row.parity.state == UNDECIDED]
    if not open_still:
        return None
    reference = next(row.parity.reference for row in open_still if row.parity is not None)
    verb = "learns" if len(open_still) == 1 else "learn"
    known = [row.parity.more_seeds for row in open_still if row.parity is not None]
    more = [missing for missing in known if missing is not None]
    needed = f" ({seeds_words(max(more))})" if more and len(more) == len(known) else ""
    assumed = " Equal steps are assumed: the computations are proven equal." if metric is EXPECTED else ""
    words = f"Too few seeds to tell whether {names(open_still)} {verb} like `{reference}`{needed}.{assumed}"
    return Objection(PARITY, False, words)


def chance(results: Results, group: Group, metric: Column) -> Objection | None:
    """Whether the runner-up is clearly different from the first."""
    rows = compared(group, metric)
    if len(rows) < 2 or min(row.done for row in rows[:2]) < 2:
        return None
    figure = rows[1].figures[metric.name]
    if settled(figure):
        return None
    start = f"The difference between {names(rows[:2], ' and ')} may be chance"
    if figure.more_seeds is None:
        return Objection(CHANCE, False, f"{start}, and no reasonable number of seeds would decide it.")
    words = f"{start} ({seeds_words(figure.more_seeds)})."
    have = min(row.done for row in rows[:2])
    return Objection(CHANCE, False, words, fixes.deciding_seeds(results, have, figure.more_seeds))


def equal(results: Results, group: Group, metric: Column) -> Objection | None:
    """No doubt, but an answer without a winner."""
    rows = compared(group, metric)
    within = rows[1].figures[metric.name].equal_within if len(rows) > 1 else None
    if within is None:
        return None
    words = f"{names(rows[:2], ' and ')} are equal within {100 * within:g} %."
    return Objection(EQUAL, False, words, "Take either.")


def seeds_words(more: int) -> str:
    """How many are missing, and with which probability they would decide."""
    verb = "seed is" if more == 1 else "seeds are"
    return f"about {more} more {verb} needed, {100 * POWER:g} % chance"


def pending(results: Results, group: Group, metric: Column) -> Objection | None:
    return unfinished(results, group.rows)


def unfinished(results: Results, rows: Sequence[Row]) -> Objection | None:
    left = sum(row.pending for row in rows)
    if not left:
        return None
    verb = "trial has" if left == 1 else "trials have"
    return Objection(
        PENDING, False, f"{left} {verb} not ended: the answer may change.", fixes.finish(results)
    )


def untuned(results: Results, group: Group, metric: Column) -> Objection | None:
    task = Task(str(group.axes["algorithm"]), group.environment)
    if task not in results.manifest.untuned:
        return None
    return Objection(UNTUNED, False, f"{untuned_words(task)}.")


def caches(results: Results, group: Group, metric: Column) -> Objection | None:
    """To start-up alone: records of older versions do not say what compilers found."""
    if metric.name != "startup_s" or len(group.ranked) < 2 or group.axes.get("caches") is not None:
        return None
    words = (
        "It was not recorded whether compile caches were empty: a first run may have filled those of others."
    )
    return Objection(CACHES, False, words, f"Run it again: {fixes.again(results)}")


def machines(results: Results, group: Group, metric: Column) -> Objection | None:
    """Nodes of a cluster may be of different kinds: their difference must not pass for the contestants'."""
    said = several_kinds(results, group)
    return None if said is None else Objection(MACHINES, False, said, fixes.one_kind_of_machine(results))


Rule = Callable[[Results, "Group", Column], Objection | None]
RULES: tuple[Rule, ...] = (
    alone,
    unmeasured,
    unreached,
    seeds,
    noise,
    certificate,
    unlearned,
    parity,
    chance,
    equal,
    pending,
    untuned,
    caches,
    machines,
)


def settled(figure: MetricValue) -> bool:
    """By adaptive seeds: shown to differ from the first, or to be equal to it."""
    return figure.clearly_worse or figure.equal_within is not None


def compared(group: Group, metric: Column) -> list[Row]:
    """Ranked contestants that have the metric, best first."""
    rows = [row for row in group.ranked if metric.name in row.figures]
    sign = -1 if metric.more_is_better else 1
    return sorted(rows, key=lambda row: sign * point(row, metric))


def point(row: Row, metric: Column) -> float:
    return row.figures[metric.name].estimate.point


def names(rows: Sequence[Row], between: str = ", ") -> str:
    return between.join(f"`{row.contestant}`" for row in rows)
