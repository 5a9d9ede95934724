"""Two results directories compared: what got faster or slower, how sure that is, what else differs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from rldyno.answers.analysis import Analysis
from rldyno.answers.comparison import SEED, against, estimate
from rldyno.answers.groups import MAIN_METRICS, MetricValue, axis_words
from rldyno.answers.runs import Runs
from rldyno.columns import Column
from rldyno.errors import Problem
from rldyno.records.directory import ResultsDirectory
from rldyno.records.files import read_json
from rldyno.records.machine_facts import MachineFacts
from rldyno.records.status import DONE
from rldyno.results.columns import by_any_name, goals
from rldyno.results.load import Results
from rldyno.stats.bootstrap import Estimate
from rldyno.stats.power import runs_to_clear
from rldyno_rig import schema
from rldyno_rig.algorithms import title_of

Json = dict[str, Any]
Key = tuple[str, ...]

BETTER, WORSE, UNCHANGED, UNDECIDED = "better", "worse", "unchanged", "undecided"
WORDS = {
    "time": {BETTER: "faster", WORSE: "slower"},
    "size": {BETTER: "smaller", WORSE: "larger"},
}
UNIT_WORDS = {"MB": "size"} | dict.fromkeys(("s", "µs", "steps/s", "1/s"), "time")
# Facts of a machine that make its times others.
MACHINE_FACTS = (
    "host_sha256",
    "os",
    "kernel",
    "architecture",
    "cpu",
    "cores_usable",
    "memory_total_bytes",
    "gpus",
)
# Fields of a trial that shape the computation, beside contestant and seed.
SHAPING = (
    "division",
    "algorithm",
    "environment",
    "max_episode_steps",
    "device",
    "cores",
    "workers",
    "dtype",
    "caches",
    "hyper",
)


@dataclass(frozen=True)
class Change:
    """One metric of one contestant and setting in both sets.

    `ratio` says how many times worse the second is than the first.
    """

    contestant: str
    setting: str
    metric: Column
    before: Estimate
    after: Estimate
    ratio: Estimate | None
    verdict: str
    threshold: float

    @property
    def more_seeds(self) -> int | None:
        """Seeds that would probably decide an undecided change; None where it is decided, or hopeless."""
        ratio = self.ratio
        if self.verdict != UNDECIDED or ratio is None or not ratio.low or ratio.high is None:
            return None
        point, bound = abs(math.log(ratio.point)), math.log1p(self.threshold)
        reach = max(math.log(ratio.high / ratio.point), math.log(ratio.point / ratio.low))
        return runs_to_clear(reach, abs(point - bound), ratio.n)

    @property
    def word(self) -> str:
        return WORDS.get(UNIT_WORDS.get(self.metric.unit, ""), {}).get(self.verdict, self.verdict)


@dataclass(frozen=True)
class Changes:
    names: tuple[str, str]
    other_differences: tuple[str, ...]
    """What differs between the two sets beside the results, one sentence each."""
    unmatched: tuple[str, ...]
    """Contestants and settings that only one of them has."""
    changes: tuple[Change, ...]
    threshold: float

    @property
    def worse(self) -> tuple[Change, ...]:
        return tuple(change for change in self.changes if change.verdict == WORSE)


def compare_results(
    first: Analysis, second: Analysis, threshold: float = 0.05, metrics: Sequence[str] = ()
) -> Changes:
    """Match the settings of two results directories and judge every metric of each.

    A change is called when its whole 95 % interval lies beyond the threshold, `unchanged` when it lies
    within, and `undecided` otherwise: more seeds narrow it.
    """
    if not threshold > 0:
        raise Problem("the threshold must be above 0", fix="give a share, for example --threshold 0.05")
    chosen = choose_metrics(metrics)
    before, after = first.results, second.results
    names = str(before.directory), str(after.directory)
    old, new = by_setting(before), by_setting(after)
    shared = [key for key in old if key in new]
    if not shared:
        raise Problem(
            f"{names[0]} and {names[1]} have no setting in common: nothing can be compared",
            fix="compare results of the same study, or of studies that share contestants and settings",
            code=1,
        )
    labels = setting_labels(old, shared)
    rng = np.random.default_rng(SEED)
    changes = [
        change
        for key in shared
        for metric in chosen
        if (change := judge(old[key], new[key], metric, threshold, labels[key], rng)) is not None
    ]
    return Changes(
        names=names,
        other_differences=tuple(other_differences(before, after)),
        unmatched=tuple(unmatched(old, new, names)),
        changes=tuple(changes),
        threshold=threshold,
    )


def choose_metrics(names: Sequence[str]) -> list[Column]:
    """The main ones unless some are named; any figure that has a better direction may be."""
    known = by_any_name(goals())
    for name in names:
        if name not in known:
            raise Problem(
                f"unknown metric `{name}`",
                fix=f"--metric takes {', '.join(alias for metric in goals() for alias in metric.aliases)}, "
                "or a column of the result table",
            )
    return [known[name] for name in names] if names else list(MAIN_METRICS)


@dataclass(frozen=True)
class SettingRuns:
    """One contestant in one setting: the trials that differ in their seed alone."""

    contestant: str
    requested: Json
    done: Runs


def by_setting(results: Results) -> dict[Key, SettingRuns]:
    """By contestant and everything that was requested of it, so that equal keys mean an equal computation."""
    home = ResultsDirectory(results.directory)
    found: dict[Key, SettingRuns] = {}
    parts = results.trials.partition_by(["contestant", *results.axes], maintain_order=True)
    for trials in parts:
        requested = read_json(home.trial(trials["trial"][0]) / schema.TRIAL_FILE)
        shaping = {name: requested.get(name) for name in SHAPING}
        # The rule that ends a trial shapes its time to threshold; how long it may run at most does not.
        stop = {name: (requested.get("budget") or {}).get(name) for name in ("stop_return", "stop_episodes")}
        key = (requested["contestant"], *(f"{name}={value!r}" for name, value in (shaping | stop).items()))
        done = Runs.of(trials.filter(pl.col("status") == DONE))
        found[key] = SettingRuns(requested["contestant"], shaping | stop, done)
    return found


def setting_labels(found: Mapping[Key, SettingRuns], keys: Sequence[Key]) -> dict[Key, str]:
    """Task and the settings that vary among them."""
    flat = {key: flat_settings(found[key].requested) for key in keys}
    names = dict.fromkeys(name for settings in flat.values() for name in settings)
    by_task: dict[tuple[Any, Any], list[Json]] = {}
    for settings in flat.values():
        by_task.setdefault((settings["algorithm"], settings["environment"]), []).append(settings)
    labels = {}
    for key, settings in flat.items():
        peers = by_task[settings["algorithm"], settings["environment"]]
        varying = [
            name
            for name in names
            if name not in ("algorithm", "environment") and len({repr(peer.get(name)) for peer in peers}) > 1
        ]
        algorithm = title_of(settings["algorithm"])
        task = f"{algorithm} on {settings['environment']}"
        words = [axis_words(name, settings[name]) for name in varying if settings.get(name) is not None]
        labels[key] = ", ".join([task, *words])
    return labels


def flat_settings(requested: Json) -> Json:
    hyper = {f"hyper.{name}": value for name, value in (requested.get("hyper") or {}).items()}
    return {name: value for name, value in requested.items() if name != "hyper"} | hyper


def judge(
    before: SettingRuns,
    after: SettingRuns,
    metric: Column,
    threshold: float,
    setting: str,
    rng: np.random.Generator,
) -> Change | None:
    """None where either set has nothing to say about the metric."""
    old, new = estimate(before.done, metric, rng), estimate(after.done, metric, rng)
    if old is None or new is None:
        return None
    ratio = against(after.done, before.done, metric, rng)
    return Change(
        contestant=before.contestant,
        setting=setting,
        metric=metric,
        before=old.estimate,
        after=new.estimate,
        ratio=ratio,
        verdict=verdict(ratio, old, new, threshold),
        threshold=threshold,
    )


def verdict(ratio: Estimate | None, before: MetricValue, after: MetricValue, threshold: float) -> str:
    if ratio is None:
        # Half of the runs of one never got there. Sure only where even its lower bound is "never".
        lost = math.isfinite(before.estimate.point) and math.isinf(after.estimate.low or 0)
        gained = math.isfinite(after.estimate.point) and math.isinf(before.estimate.low or 0)
        return WORSE if lost else BETTER if gained else UNDECIDED
    if ratio.low is None or ratio.high is None:
        return UNDECIDED
    if ratio.low > 1 + threshold:
        return WORSE
    if ratio.high < 1 / (1 + threshold):
        return BETTER
    if ratio.low >= 1 / (1 + threshold) and ratio.high <= 1 + threshold:
        return UNCHANGED
    return UNDECIDED


def other_differences(before: Results, after: Results) -> Iterable[str]:
    """Machines and versions that differ, named before any figure is shown."""
    old, new = before.manifest.machine, after.manifest.machine
    for fact in MACHINE_FACTS:
        left, right = machine_fact(old, fact), machine_fact(new, fact)
        if left != right:
            name = fact.removesuffix("_sha256").removesuffix("_bytes").replace("_", " ")
            yield f"machine: {name} {shown(left)} → {shown(right)}"
    for name, title in (("rldyno", "rldyno"), ("git_revision", "revision of rldyno")):
        was, became = getattr(before.manifest, name), getattr(after.manifest, name)
        if was != became:
            yield f"{title} {shown(was or None)} → {shown(became or None)}"
    for contestant in sorted(before.versions.keys() & after.versions.keys()):
        packages, later = before.versions[contestant][0], after.versions[contestant][0]
        for package in sorted(packages.keys() | later.keys()):
            if packages.get(package) != later.get(package):
                yield f"{contestant}: {package} {shown(packages.get(package))} → {shown(later.get(package))}"
    for contestant in sorted(before.facts.keys() & after.facts.keys()):
        if before.facts[contestant].backend_sha256 != after.facts[contestant].backend_sha256:
            yield f"{contestant}: its backend has changed"
    yield from noise_difference(before, after)


def machine_fact(machine: MachineFacts, name: str) -> Any:
    if name != "gpus":
        return getattr(machine, name)
    return (
        "; ".join(f"{gpu.name}, driver {gpu.driver}, {gpu.power_limit_w} W" for gpu in machine.gpus) or None
    )


def noise_difference(before: Results, after: Results) -> Iterable[str]:
    old, new = (results.trials["noise_score"].median() for results in (before, after))
    if isinstance(old, float) and isinstance(new, float) and abs(old - new) > 0.1:
        yield f"noise: median score {old:.2f} → {new:.2f}"


def shown(value: Any) -> str:
    return "unknown" if value is None else str(value)


def unmatched(
    old: Mapping[Key, SettingRuns], new: Mapping[Key, SettingRuns], names: tuple[str, str]
) -> Iterable[str]:
    for found, others, name in ((old, new, names[0]), (new, old, names[1])):
        alone = [key for key in found if key not in others]
        labels = setting_labels(found, alone)
        for key in alone:
            why = difference(found[key], others.values())
            yield f"only in {name}: {found[key].contestant}, {labels[key]}{why}"


def difference(runs: SettingRuns, others: Iterable[SettingRuns]) -> str:
    """What keeps it from being compared, where one setting alone does."""
    mine = flat_settings(runs.requested)
    for other in others:
        theirs = flat_settings(other.requested)
        names = [name for name in mine.keys() | theirs.keys() if mine.get(name) != theirs.get(name)]
        if other.contestant == runs.contestant and len(names) == 1:
            name = names[0]
            return f" ({name.removeprefix('hyper.')} {mine.get(name)}, {theirs.get(name)} in the other)"
    return ""
