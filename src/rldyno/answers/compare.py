"""Two result sets held against each other: what got faster or slower, how sure, and what else differs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from rldyno.answers.groups import MAIN_METRICS, Figure, axis_words
from rldyno.answers.runs import Runs
from rldyno.answers.table import SEED, against, estimate
from rldyno.columns import Column
from rldyno.errors import Problem
from rldyno.records import files as records
from rldyno.results.columns import by_any_name, goals
from rldyno.results.load import Results, load_results
from rldyno.stats.bootstrap import Estimate
from rldyno.stats.power import runs_to_clear
from rldyno.text.numbers import number
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
ASKED = (
    "division",
    "algorithm",
    "environment",
    "max_episode_steps",
    "device",
    "cores",
    "workers",
    "dtype",
    "hyper",
)


@dataclass(frozen=True)
class Change:
    """One metric of one cell in both sets. `ratio` says how many times worse the second is than the first."""

    contestant: str
    cell: str
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
class Comparison:
    names: tuple[str, str]
    unlike: tuple[str, ...]
    """What differs between the two sets beside the results, one sentence each."""
    unmatched: tuple[str, ...]
    """Cells that only one of them has."""
    changes: tuple[Change, ...]
    threshold: float

    @property
    def worse(self) -> tuple[Change, ...]:
        return tuple(change for change in self.changes if change.verdict == WORSE)


def compare_results(
    first: Path, second: Path, threshold: float = 0.05, metrics: Sequence[str] = ()
) -> Comparison:
    """Match the cells of two results directories and judge every metric of each.

    A change is called when its whole 95 % interval lies beyond the threshold, `unchanged` when it lies
    within, and `undecided` otherwise: more seeds narrow it.
    """
    if not threshold > 0:
        raise Problem("the threshold must be above 0", fix="give a share, for example --threshold 0.05")
    chosen = choose_metrics(metrics)
    before, after = load_results(first), load_results(second)
    old, new = cells(before), cells(after)
    shared = [key for key in old if key in new]
    if not shared:
        raise Problem(
            f"{first} and {second} have no cell in common: nothing can be compared",
            fix="compare results of the same study, or of studies that share contestants and settings",
            code=1,
        )
    labels = cell_labels(old, shared)
    rng = np.random.default_rng(SEED)
    changes = [
        change
        for key in shared
        for metric in chosen
        if (change := judge(old[key], new[key], metric, threshold, labels[key], rng)) is not None
    ]
    return Comparison(
        names=(str(first), str(second)),
        unlike=tuple(unlike(before, after)),
        unmatched=tuple(unmatched(old, new, (str(first), str(second)))),
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
                fix=f"--metric takes {', '.join(metric.key for metric in goals() if metric.aliases)}, "
                "or a column of the result table",
            )
    return [known[name] for name in names] if names else list(MAIN_METRICS)


@dataclass(frozen=True)
class Cell:
    """One contestant in one setting: the trials that differ in their seed alone."""

    contestant: str
    asked: Json
    done: Runs


def cells(results: Results) -> dict[Key, Cell]:
    """By contestant and everything that was asked of it, so that equal keys mean an equal computation."""
    home = records.Results(results.directory)
    found: dict[Key, Cell] = {}
    parts = results.trials.partition_by(["contestant", *results.axes], maintain_order=True)
    for trials in parts:
        asked = records.read_json(home.trial(trials["trial"][0]) / schema.TRIAL_FILE)
        shaping = {name: asked.get(name) for name in ASKED}
        # The rule that ends a trial shapes its time to threshold; how long it may run at most does not.
        stop = {name: (asked.get("budget") or {}).get(name) for name in ("stop_return", "stop_episodes")}
        key = (asked["contestant"], *(f"{name}={value!r}" for name, value in (shaping | stop).items()))
        done = Runs.of(trials.filter(pl.col("status") == "done"))
        found[key] = Cell(asked["contestant"], shaping | stop, done)
    return found


def cell_labels(found: Mapping[Key, Cell], keys: Sequence[Key]) -> dict[Key, str]:
    """Task and the settings that vary among the cells."""
    flat = {key: flat_settings(found[key].asked) for key in keys}
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


def flat_settings(asked: Json) -> Json:
    hyper = {f"hyper.{name}": value for name, value in (asked.get("hyper") or {}).items()}
    return {name: value for name, value in asked.items() if name != "hyper"} | hyper


def judge(
    before: Cell,
    after: Cell,
    metric: Column,
    threshold: float,
    cell: str,
    rng: np.random.Generator,
) -> Change | None:
    """None where either set has nothing to say about the metric."""
    old, new = estimate(before.done, metric, rng), estimate(after.done, metric, rng)
    if old is None or new is None:
        return None
    ratio = against(after.done, before.done, metric, rng)
    return Change(
        contestant=before.contestant,
        cell=cell,
        metric=metric,
        before=old.estimate,
        after=new.estimate,
        ratio=ratio,
        verdict=verdict(ratio, old, new, threshold),
        threshold=threshold,
    )


def verdict(ratio: Estimate | None, before: Figure, after: Figure, threshold: float) -> str:
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


def unlike(before: Results, after: Results) -> Iterable[str]:
    """Machines and versions that differ, named before any figure is shown."""
    old, new = before.manifest.get("machine") or {}, after.manifest.get("machine") or {}
    for fact in MACHINE_FACTS:
        if old.get(fact) != new.get(fact):
            name = fact.removesuffix("_sha256").removesuffix("_bytes").replace("_", " ")
            yield f"machine: {name} {shown(old.get(fact))} → {shown(new.get(fact))}"
    for name, title in (("rldyno", "rldyno"), ("git_revision", "revision of rldyno")):
        if before.manifest.get(name) != after.manifest.get(name):
            yield f"{title} {shown(before.manifest.get(name))} → {shown(after.manifest.get(name))}"
    for contestant in sorted(before.versions.keys() & after.versions.keys()):
        left, right = before.versions[contestant][0], after.versions[contestant][0]
        for package in sorted(left.keys() | right.keys()):
            if left.get(package) != right.get(package):
                yield f"{contestant}: {package} {shown(left.get(package))} → {shown(right.get(package))}"
    for contestant in sorted(before.facts.keys() & after.facts.keys()):
        if before.facts[contestant].get("backend_sha256") != after.facts[contestant].get("backend_sha256"):
            yield f"{contestant}: its backend has changed"
    yield from noise_difference(before, after)


def noise_difference(before: Results, after: Results) -> Iterable[str]:
    old, new = (results.trials["noise_score"].median() for results in (before, after))
    if isinstance(old, float) and isinstance(new, float) and abs(old - new) > 0.1:
        yield f"noise: median score {old:.2f} → {new:.2f}"


def shown(value: Any) -> str:
    return "unknown" if value is None else str(value)


def unmatched(old: Mapping[Key, Cell], new: Mapping[Key, Cell], names: tuple[str, str]) -> Iterable[str]:
    for found, others, name in ((old, new, names[0]), (new, old, names[1])):
        alone = [key for key in found if key not in others]
        labels = cell_labels(found, alone)
        for key in alone:
            why = difference(found[key], others.values())
            yield f"only in {name}: {found[key].contestant}, {labels[key]}{why}"


def difference(cell: Cell, others: Iterable[Cell]) -> str:
    """What keeps it from being compared, where one setting alone does."""
    mine = flat_settings(cell.asked)
    for other in others:
        theirs = flat_settings(other.asked)
        names = [name for name in mine.keys() | theirs.keys() if mine.get(name) != theirs.get(name)]
        if other.contestant == cell.contestant and len(names) == 1:
            name = names[0]
            return f" ({name.removeprefix('hyper.')} {mine.get(name)}, {theirs.get(name)} in the other)"
    return ""


def headline(comparison: Comparison) -> str:
    """`2 slower, 1 faster, 12 unchanged, 5 undecided (threshold 5 %)`."""
    counts: dict[str, int] = {}
    order = {WORSE: 0, BETTER: 1, UNCHANGED: 2, UNDECIDED: 3}
    for change in sorted(comparison.changes, key=lambda change: order[change.verdict]):
        counts[change.word] = counts.get(change.word, 0) + 1
    words = ", ".join(f"{count} {word}" for word, count in counts.items())
    return f"{words or 'nothing to compare'} (threshold {comparison.threshold * 100:g} %)"


def seeds_words(comparison: Comparison) -> str | None:
    """How many more seeds the undecided need; None when nothing is undecided."""
    undecided = [change for change in comparison.changes if change.verdict == UNDECIDED]
    if not undecided:
        return None
    lone = sum(change.ratio is not None and change.ratio.low is None for change in undecided)
    if lone == len(undecided):
        return "one seed shows no spread: run five or more in both sets"
    known = sorted(change.more_seeds for change in undecided if change.more_seeds is not None)
    if not known:
        return f"too few seeds to decide {len(undecided)}, and no reasonable number of them would do"
    half = known[(len(known) - 1) // 2]
    words = f"too few seeds to decide {len(undecided)}: about {half} more in both sets would decide "
    return (
        words
        + f"{sum(more <= half for more in known)} of them"
        + (f", {known[-1]} more {len(known)}" if known[-1] > half else "")
    )


def figures(change: Change) -> tuple[str, str, str, str]:
    """(before, after, ratio, its interval) as text. The ratio is of what is measured: 2× speed is faster."""
    scale = change.metric.scale
    ratio = inverse(change.ratio) if change.metric.more_is_better else change.ratio
    if ratio is None:
        return (number(change.before.point * scale), number(change.after.point * scale), "–", "–")
    return (
        number(change.before.point * scale),
        number(change.after.point * scale),
        f"{ratio.point:.2f}×",
        "one seed" if ratio.low is None else f"{ratio.low:.2f}–{ratio.high:.2f}",
    )


def inverse(ratio: Estimate | None) -> Estimate | None:
    if ratio is None or ratio.low is None or ratio.high is None:
        return None if ratio is None else Estimate(1 / ratio.point, None, None, ratio.n)
    return Estimate(1 / ratio.point, 1 / ratio.high, 1 / ratio.low, ratio.n)


def ordered(comparison: Comparison) -> list[Change]:
    """What got worse first, the worst of it at the top; then what got better, undecided, unchanged."""
    order = (WORSE, BETTER, UNDECIDED, UNCHANGED)

    def key(change: Change) -> tuple[int, float]:
        return order.index(change.verdict), -abs(math.log(change.ratio.point)) if change.ratio else -math.inf

    return sorted(comparison.changes, key=key)


def markdown(comparison: Comparison) -> str:
    """For a pull request: the verdict, what differs, the changes, and the rest folded away."""
    told = [change for change in ordered(comparison) if change.verdict in (WORSE, BETTER)]
    rest = [change for change in ordered(comparison) if change.verdict not in (WORSE, BETTER)]

    def table(changes: Sequence[Change]) -> list[str]:
        lines = [
            "| verdict | contestant | task | metric | before | after | ratio | 95 % interval |",
            "|---|---|---|---|---:|---:|---:|---:|",
        ]
        for change in changes:
            metric = f"{change.metric.title}, {change.metric.unit}"
            cells = (
                f"**{change.word}**" if change in told else change.word,
                f"`{change.contestant}`",
                change.cell,
                metric,
            )
            lines.append(f"| {' | '.join(map(escaped, (*cells, *figures(change))))} |")
        return lines

    lines = [f"**rldyno compare: {headline(comparison)}**", ""]
    lines += [f"`{comparison.names[0]}` → `{comparison.names[1]}`", ""]
    if comparison.unlike:
        lines += [
            "> Not only the results differ:",
            *(f"> - {escaped(line)}" for line in comparison.unlike),
            "",
        ]
    if told:
        lines += [*table(told), ""]
    if said := seeds_words(comparison):
        lines += [said, ""]
    if rest:
        lines += [
            "<details><summary>unchanged and undecided</summary>",
            "",
            *table(rest),
            "",
            "</details>",
            "",
        ]
    if comparison.unmatched:
        lines += ["Not compared:", *(f"- {escaped(line)}" for line in comparison.unmatched), ""]
    return "\n".join(lines)


def escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")
