"""What answers are made of: metrics, a contestant's figures, and groups of comparable trials."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from rldyno.answers.learned import Unlearned
from rldyno.answers.learning import LearningParity
from rldyno.answers.ranking import EXPECTED
from rldyno.answers.runs import Runs
from rldyno.answers.trust import Trust
from rldyno.columns import Column
from rldyno.proofs.certificate import ABSENT, FAILED, GUEST, STALE, VALID
from rldyno.results.columns import column
from rldyno.stats.distributions import ALPHA
from rldyno.stats.equivalence import DIFFERENT
from rldyno.stats.estimates import RANGE, Estimate
from rldyno.stats.moments import Floats
from rldyno_rig.algorithms import title_of

THRESHOLD = column("threshold_s")
STEPS = column("threshold_steps")
THROUGHPUT = column("steps_per_s")
FRAMEWORK = column("framework_step_s")
CPU = column("cpu_s")
MEMORY = column("peak_rss_bytes")
STARTUP = column("startup_s")
MAIN_METRICS = (THRESHOLD, THROUGHPUT, FRAMEWORK, CPU, MEMORY, STARTUP)


@dataclass(frozen=True)
class MetricValue:
    """A metric of a contestant. `ratio` says how many times worse than the best it is; the best has 1."""

    estimate: Estimate
    ratio: Estimate | None = None
    """None too where the comparison is barred."""
    first: bool = False
    """Ranked first: the ratios of the others are to it."""
    best: bool = False
    """Ranked first, and nobody who is shown without a rank has a better value."""
    note: str | None = None
    chance: float | None = None
    """Probability of such a difference from the best by chance alone, corrected for all pairs (Holm)."""
    more_seeds: int | None = None
    """Where that is above 5 %: further seeds that would probably decide it; None beyond 1,000."""
    equal_within: float | None = None
    """Adaptive seeds: shown to be no more than this share worse than the best."""

    @property
    def clearly_worse(self) -> bool:
        """Than the best: chance, corrected, is at most 5 %, and the interval of the ratio excludes 1.

        Without a ratio (it never got there), or with a mere range of it, chance alone decides.
        """
        beyond_chance = self.chance is None or self.chance <= ALPHA
        if self.ratio is None or self.ratio.kind == RANGE:
            return beyond_chance
        return beyond_chance and self.ratio.low is not None and self.ratio.low > 1


@dataclass(frozen=True)
class Row:
    contestant: str
    framework: str
    mode: str
    certificate: str
    certificate_detail: str | None
    done: int
    reached: int
    failed: int
    pending: int
    absent: str | None
    """Why the framework could not run at all."""
    failure: str | None
    """Message of the first failed trial."""
    figures: dict[str, MetricValue]
    parity: LearningParity | None = None
    """How it learns compared with the others; None where nothing certified has run."""

    @property
    def certified(self) -> bool:
        return self.certificate == VALID

    @property
    def guest(self) -> bool:
        """A script of the user's: shown beside the others, never ranked with them."""
        return self.certificate == GUEST

    @property
    def unranked(self) -> str | None:
        """Why this contestant is shown but not ranked; None when it is."""
        if self.absent is not None:
            return self.absent
        if self.failed:
            return f"{self.failed} of {self.failed + self.done} trials failed: {self.failure}"
        if not self.done:
            return "no trial has ended yet"
        if not self.certified:
            return f"{CERTIFICATE_WORDS[self.certificate]}: {self.certificate_detail}"
        if self.parity is not None and self.parity.state == DIFFERENT:
            return f"learns differently from {self.parity.reference}: {self.parity.detail}"
        return None


CERTIFICATE_WORDS = {
    VALID: "certified",
    STALE: "certificate out of date",
    ABSENT: "no certificate",
    FAILED: "proof failed",
    GUEST: "guest",
}


@dataclass(frozen=True)
class Group:
    """Trials that differ in nothing but contestant and seed. Rows are ranked first, best first."""

    axes: dict[str, Any]
    setting: str
    """The axes that vary within the study, besides algorithm and environment: `2 cores, batch_size 64`."""
    stop_return: float | None
    stop_episodes: int | None
    rows: tuple[Row, ...]
    trials: pl.DataFrame
    runs: Mapping[str, Runs]
    """Contestant → its finished runs."""
    shared_steps: float | None = None
    """Steps to the threshold of all ranked contestants together; None where their own times are compared."""
    unlearned: Unlearned | None = None
    """Returns at both ends of the runs, where nobody learned."""
    few_episodes: bool = False
    """Too few ended to tell whether anybody learned."""
    trusts: Mapping[str, Trust] = field(default_factory=dict)
    """Metric → what may be said of the contestants by it."""

    @property
    def algorithm(self) -> str:
        return algorithm_name(self.axes)

    @property
    def environment(self) -> str:
        return str(self.axes["environment"])

    @property
    def label(self) -> str:
        return group_label(self.axes, self.setting)

    @property
    def primary(self) -> Column:
        return primary_metric(self.stop_return) if self.shared_steps is None else EXPECTED

    @property
    def metrics(self) -> tuple[Column, ...]:
        main = MAIN_METRICS if self.stop_return is not None else MAIN_METRICS[1:]
        return main if self.shared_steps is None else (EXPECTED, *main)

    @property
    def ranked(self) -> tuple[Row, ...]:
        return tuple(row for row in self.rows if row.unranked is None)

    @property
    def trust(self) -> Trust:
        """What may be said by the metric that the group is ranked by."""
        return self.trusts[self.primary.name]

    def outdoing(self, metric: Column) -> list[Row]:
        """Contestants that are shown without a rank and have a better value than everyone ranked.

        Guests compute something of their own: they are none of them.

        They have no expected time: there the measured one counts.
        """
        metric = THRESHOLD if metric is EXPECTED else metric
        ranked = min((badness(row, metric) for row in self.ranked), default=math.inf)
        outside = (row for row in self.rows if row.unranked is not None and not row.guest)
        return [row for row in outside if badness(row, metric) < ranked]


def badness(row: Row, metric: Column) -> float:
    figure = row.figures.get(metric.name)
    if figure is None:
        return math.inf
    return -figure.estimate.point if metric.more_is_better else figure.estimate.point


def primary_metric(stop_return: object) -> Column:
    """What a group is ranked by where steps are not shared: the time to its threshold if it has one."""
    return THROUGHPUT if stop_return is None else THRESHOLD


def run_values(done: Runs, metric: Column) -> Floats:
    """Values of the runs; for the threshold rows of (time or steps, reached)."""
    if metric is STEPS:
        return done.steps_to_threshold()
    return done.times_to_threshold() if metric is THRESHOLD else done.known(metric.name)


def algorithm_name(axes: Mapping[str, Any]) -> str:
    name = str(axes["algorithm"])
    return title_of(name)


@dataclass(frozen=True)
class Absence:
    """A contestant that could not run, everywhere or in some settings."""

    contestant: str
    why: str
    settings: tuple[str, ...]
    """Empty where it is absent from all comparisons."""

    @property
    def place(self) -> str:
        """`2 workers, collective host`, and how many more there are; empty for everywhere."""
        more = f" and {len(self.settings) - 1} more" if len(self.settings) > 1 else ""
        return f"{self.settings[0]}{more}" if self.settings else ""


def absences(groups: Iterable[Group]) -> list[Absence]:
    """One for each contestant and reason."""
    found: dict[tuple[str, str], list[str]] = {}
    elsewhere = set()
    for group in groups:
        for row in group.rows:
            if row.absent is None:
                elsewhere.add(row.contestant)
            else:
                found.setdefault((row.contestant, row.absent), []).append(group.setting or group.label)
    reasons = Counter(name for name, _ in found)
    return [
        Absence(name, why, tuple(settings) if name in elsewhere or reasons[name] > 1 else ())
        for (name, why), settings in found.items()
    ]


def group_label(axes: Mapping[str, Any], setting: str) -> str:
    task = f"{algorithm_name(axes)} on {axes['environment']}"
    return f"{task}, {setting}" if setting else task


def setting_label(axes: dict[str, Any], varying: Sequence[str]) -> str:
    return ", ".join(
        axis_words(name, axes[name])
        for name in varying
        if name not in ("algorithm", "environment") and axes[name] is not None and _counts(name, axes)
    )


def _counts(name: str, axes: Mapping[str, Any]) -> bool:
    """One worker averages with nobody."""
    return name not in ("collective", "scaling") or axes["workers"] > 1


def axis_words(name: str, value: Any) -> str:
    plural = "" if value == 1 else "s"
    words = {
        "cores": f"{value} core{plural}",
        "workers": f"{value} worker{plural}",
        "collective": f"collective {value}",
        "scaling": f"{value} scaling",
        "device": str(value),
        "dtype": str(value),
        "division": f"{value} division",
        "caches": f"{value} caches",
        "processor": f"on {value}",
        "max_episode_steps": f"episodes of at most {value} steps",
        "hyper.members": f"{value} member{plural}",
    }
    return words.get(name, f"{name.removeprefix('hyper.')} {value}")
