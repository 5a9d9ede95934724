"""Two results directories compared: what got faster or slower, how sure that is, what else differs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from rldyno.answers.analysis import Analysis
from rldyno.answers.groups import MAIN_METRICS, axis_words
from rldyno.answers.pairs import seeded
from rldyno.answers.runs import Runs
from rldyno.answers.session_change import WORSE, Change, Measured, judge_all, measure
from rldyno.answers.trust import disturbed, few_seeds, unproven_runs
from rldyno.columns import Column
from rldyno.errors import Problem
from rldyno.records.directory import ResultsDirectory
from rldyno.records.files import read_json
from rldyno.records.machine_facts import MachineFacts
from rldyno.records.status import DONE
from rldyno.results.columns import by_any_name, goals
from rldyno.results.load import AXES, Results
from rldyno_rig import schema
from rldyno_rig.algorithms import ALGORITHMS, title_of
from rldyno_rig.contestant import Contestant

Key = tuple[str, ...]

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
    first: Analysis,
    second: Analysis,
    threshold: float = 0.05,
    metrics: Sequence[str] = (),
    ignore_releases: bool = False,
) -> Changes:
    """Match the settings of two results directories and judge every metric of each.

    `ignore_releases`: `jax@0.7.0:jit` of one is matched with `jax@0.8.0:jit` or `jax:jit` of the other.

    A change is called when it is larger than the threshold and than what two sessions of the same study
    differ by: over all verdicts together, a false one has a chance of 5 %. It is `unchanged` when it is shown
    to lie within the threshold, and `undecided` otherwise.
    """
    if not threshold > 0:
        raise Problem("the threshold must be above 0", fix="give a share, for example --threshold 0.05")
    chosen = choose_metrics(metrics)
    before, after = first.results, second.results
    names = str(before.directory), str(after.directory)
    old, new = by_setting(before, ignore_releases), by_setting(after, ignore_releases)
    shared = [key for key in old if key in new]
    if not shared:
        raise Problem(
            f"{names[0]} and {names[1]} have no setting in common: nothing can be compared",
            fix="compare results of the same study, or of studies that share contestants and settings",
            code=1,
        )
    labels = setting_labels(old, shared)
    measured = [
        found
        for key in shared
        for metric in chosen
        if (found := in_both(old[key], new[key], metric, labels[key], (before, after))) is not None
    ]
    return Changes(
        names=names,
        other_differences=tuple(other_differences(before, after)),
        unmatched=tuple(unmatched(old, new, names)),
        changes=judge_all(measured, threshold),
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
    settings: Mapping[str, Any]
    """What was requested of it, hyper-parameters as `hyper.<name>`."""
    done: Runs
    certificates: tuple[str, ...]


def by_setting(results: Results, ignore_releases: bool = False) -> dict[Key, SettingRuns]:
    """By contestant and everything that was requested of it, so that equal keys mean an equal computation."""
    home = ResultsDirectory(results.directory)
    found: dict[Key, SettingRuns] = {}
    parts = results.trials.partition_by(["contestant", *results.axes], maintain_order=True)
    for trials in parts:
        requested = read_json(home.trial(trials["trial"][0]) / schema.TRIAL_FILE)
        first = trials.row(0, named=True)
        settings = {name: first[name] for name in AXES}
        # The rule that ends a trial shapes its time to threshold; how long it may run at most does not.
        budget = requested.get("budget") or {}
        settings |= {name: budget.get(name) for name in ("stop_return", "stop_episodes")}
        settings |= {f"hyper.{name}": value for name, value in complete_hyper(requested).items()}
        contestant = Contestant.parse(requested["contestant"])
        name = f"{contestant.family}:{contestant.mode}" if ignore_releases else str(contestant)
        key = (name, *(f"{name}={value!r}" for name, value in sorted(settings.items())))
        if key in found:
            raise Problem(
                f"{results.directory} holds {found[key].contestant} and {requested['contestant']}: without "
                "their releases they are the same",
                fix="run each release into a directory of its own",
            )
        finished = trials.filter(pl.col("status") == DONE)
        found[key] = SettingRuns(
            requested["contestant"], settings, Runs.of(finished), tuple(finished["certificate"])
        )
    return found


def complete_hyper(requested: Mapping[str, Any]) -> Mapping[str, Any]:
    """Of a trial, whatever the version that recorded it."""
    values: Mapping[str, Any] = requested.get("hyper") or {}
    known = ALGORITHMS.get(requested.get("algorithm", ""))
    return values if known is None else known.completed(values)


def setting_labels(found: Mapping[Key, SettingRuns], keys: Sequence[Key]) -> dict[Key, str]:
    """Task and the settings that vary among them."""
    flat = {key: found[key].settings for key in keys}
    names = dict.fromkeys(name for settings in flat.values() for name in settings)
    by_task: dict[tuple[Any, Any], list[Mapping[str, Any]]] = {}
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


def in_both(
    before: SettingRuns, after: SettingRuns, metric: Column, setting: str, both: tuple[Results, Results]
) -> Measured | None:
    """One metric of both sessions, with what speaks against a verdict."""
    column = None if metric.censored_at else metric.name
    runs = seeded(before.done, column), seeded(after.done, column)
    objections = [
        replace(objection, words=f"{name}: {objection.words}")
        for name, found, results in zip("AB", (before, after), both, strict=True)
        for objection in (
            disturbed(results, [found.done]),
            few_seeds(results, len(found.done)),
            unproven_runs(results, found.contestant, found.certificates),
        )
        if objection is not None
    ]
    names = dict.fromkeys((before.contestant, after.contestant))
    return measure(" → ".join(names), setting, metric, runs, objections)


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
    mine = runs.settings
    for other in others:
        theirs = other.settings
        names = [name for name in mine.keys() | theirs.keys() if mine.get(name) != theirs.get(name)]
        if other.contestant == runs.contestant and len(names) == 1:
            name = names[0]
            return f" ({name.removeprefix('hyper.')} {mine.get(name)}, {theirs.get(name)} in the other)"
    return ""
