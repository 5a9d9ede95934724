"""The comparison table: contestants' figures against the best, among comparable trials."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from rldyno.answers.duels import EQUAL, Rule, Scale, duels, rule_of, seeded
from rldyno.answers.leads import chances, seeds_missing
from rldyno.answers.parity import Parity, group_parity
from rldyno.answers.runs import Runs, by_contestant
from rldyno.results import ABSENT, FAILED, STALE, VALID, Results
from rldyno.stats.bootstrap import (
    Estimate,
    Floats,
    Resampler,
    Sample,
    estimate_of,
    interquartile_mean,
    ratio_estimate,
)
from rldyno.stats.censored import TimeToEvent, median_ratio, survival_median
from rldyno.stats.equivalence import ALPHA, DIFFERENT

ALGORITHM_NAMES = {"dqn": "DQN", "rainbow": "Rainbow", "a2c": "A2C", "ppo": "PPO"}
# The same results give the same intervals.
SEED = 20_260_101
# What a row says of its trials beside their figures.
TOLD = (
    "contestant",
    "framework",
    "mode",
    "status",
    "reason",
    "message",
    "certificate",
    "certificate_detail",
)
Json = dict[str, Any]


@dataclass(frozen=True)
class Metric:
    name: str
    title: str
    unit: str
    column: str
    scale: float = 1.0
    """Multiplies the column to give the unit."""
    more_is_better: bool = False


THRESHOLD = Metric("threshold", "Time to threshold", "s", "threshold_s")
THROUGHPUT = Metric("throughput", "Speed", "steps/s", "steps_per_s", more_is_better=True)
CPU = Metric("cpu", "CPU time", "s", "cpu_s")
MEMORY = Metric("memory", "Peak memory", "MB", "peak_rss_bytes", scale=1e-6)
STARTUP = Metric("startup", "Start-up", "s", "startup_s")
METRICS = (THRESHOLD, THROUGHPUT, CPU, MEMORY, STARTUP)


@dataclass(frozen=True)
class Figure:
    """A metric of a contestant. `ratio` says how many times worse than the best it is; the best has 1."""

    estimate: Estimate
    ratio: Estimate | None = None
    best: bool = False
    note: str | None = None
    chance: float | None = None
    """How easily chance alone parts it from the best: p, corrected for all pairs of the group (Holm)."""
    more_seeds: int | None = None
    """Where that is above 5 %: seeds that would probably tell them apart; None where that is hopeless."""
    equal_within: float | None = None
    """Adaptive seeds: shown to be no more than this share worse than the best."""


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
    figures: dict[str, Figure]
    parity: Parity | None = None
    """How it learns beside the others; None where nothing certified has run to hold it against."""

    @property
    def certified(self) -> bool:
        return self.certificate == VALID

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
            return f"learns unlike {self.parity.reference}: {self.parity.detail}"
        return None


CERTIFICATE_WORDS = {
    VALID: "certified",
    STALE: "certificate out of date",
    ABSENT: "no certificate",
    FAILED: "proof failed",
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
    def primary(self) -> Metric:
        return primary_metric(self.stop_return)

    @property
    def metrics(self) -> tuple[Metric, ...]:
        return METRICS if self.stop_return is not None else METRICS[1:]

    @property
    def ranked(self) -> tuple[Row, ...]:
        return tuple(row for row in self.rows if row.unranked is None)


def compare(results: Results) -> tuple[Group, ...]:
    """One group per algorithm × environment × setting that has trials, in the order of the plan."""
    rng = np.random.default_rng(SEED)
    varying = varying_axes(results)
    return tuple(compare_group(results, axes, varying, trials, rng) for axes, trials in group_frames(results))


def group_frames(results: Results) -> list[tuple[dict[str, Any], pl.DataFrame]]:
    parts = results.trials.partition_by(results.axes, as_dict=True, maintain_order=True)
    return [(dict(zip(results.axes, key, strict=True)), trials) for key, trials in parts.items()]


def varying_axes(results: Results) -> list[str]:
    return [name for name in results.axes if results.trials[name].n_unique() > 1]


def compare_group(
    results: Results,
    axes: dict[str, Any],
    varying: Sequence[str],
    trials: pl.DataFrame,
    rng: np.random.Generator,
) -> Group:
    runs = by_contestant(trials)
    samples = {name: metric_samples(done, METRICS, rng) for name, done in runs.items()}
    told: dict[str, list[Json]] = {name: [] for name in runs}
    for trial in trials.select(TOLD).iter_rows(named=True):
        told[trial["contestant"]].append(trial)
    rows = [contestant_row(told[name], done, samples[name]) for name, done in runs.items()]
    parity = group_parity(results, runs, {row.contestant for row in rows if row.unranked is None})
    rows = [replace(row, parity=parity.get(row.contestant)) for row in rows]
    rule = rule_of(results.manifest)
    group = Group(
        axes=axes,
        setting=setting_label(axes, varying),
        stop_return=trials["stop_return"].max(),  # type: ignore[arg-type]
        stop_episodes=trials["stop_episodes"].max(),  # type: ignore[arg-type]
        rows=(),
        trials=trials,
        runs=runs,
    )
    for metric in group.metrics:
        known = {name: found.get(metric.name) for name, found in samples.items()}
        rows = with_ratios(rows, runs, known, metric, rule)
    return replace(group, rows=tuple(sorted(rows, key=lambda row: rank_key(row, group.primary))))


def primary_metric(stop_return: object) -> Metric:
    """What a group is ranked by: the time to its threshold if it has one."""
    return THROUGHPUT if stop_return is None else THRESHOLD


def contestant_row(trials: Sequence[Json], done: Runs, samples: Mapping[str, Sample]) -> Row:
    """Of a contestant's trials, with their columns TOLD."""
    # An interrupted trial is not the contestant's failure: it will be run again.
    failures = [
        trial
        for trial in trials
        if trial["status"] == "failed" and trial["reason"] not in ("interrupted", "absent")
    ]
    absences = [trial for trial in trials if trial["reason"] == "absent"]
    worst = max(
        [trial for trial in trials if trial["status"] == "done"] or trials,
        key=lambda trial: (VALID, STALE, ABSENT, FAILED).index(trial["certificate"]),
    )
    return Row(
        contestant=worst["contestant"],
        framework=worst["framework"],
        mode=worst["mode"],
        certificate=worst["certificate"],
        certificate_detail=worst["certificate_detail"],
        done=len(done),
        reached=reached(done),
        failed=len(failures),
        pending=len(trials) - len(done) - len(failures) - len(absences),
        absent=(absences[0]["message"] or "the framework is absent") if absences else None,
        failure=(failures[0]["message"] or failures[0]["reason"]) if failures else None,
        figures={name: figure_of(done, found, name) for name, found in samples.items()},
    )


def reached(done: Runs) -> int:
    return int((done["threshold_reached"] > 0).sum())


def metric_samples(done: Runs, metrics: Iterable[Metric], rng: np.random.Generator) -> dict[str, Sample]:
    """Metric → its figure over the runs, which are resampled once for all; what no run has is left out."""
    samples = {}
    resampler = Resampler(rng)
    for metric in metrics:
        values = run_values(done, metric)
        if len(values):
            statistic = survival_median if metric is THRESHOLD else interquartile_mean
            samples[metric.name] = resampler.sample(values, statistic)
    return samples


def figure_of(done: Runs, found: Sample, metric_name: str) -> Figure:
    figure = Figure(estimate_of(found))
    if metric_name != THRESHOLD.name:
        return figure
    return replace(figure, note=TimeToEvent(figure.estimate, found.n, reached(done)).missed)


def estimate(done: Runs, metric: Metric, rng: np.random.Generator) -> Figure | None:
    """One metric of a contestant's finished runs; None when no run has it."""
    found = metric_samples(done, [metric], rng).get(metric.name)
    return figure_of(done, found, metric.name) if found is not None else None


def run_values(done: Runs, metric: Metric) -> Floats:
    """Values of the runs; for the threshold rows of (time, reached)."""
    return done.times_to_threshold() if metric is THRESHOLD else done.known(metric.column)


def with_ratios(
    rows: Sequence[Row],
    runs: Mapping[str, Runs],
    samples: Mapping[str, Sample | None],
    metric: Metric,
    rule: Rule | None = None,
) -> list[Row]:
    """Rows with their figures held against the best; `rule` where seeds were added after looks."""
    rows = list(rows)
    candidates = [row for row in rows if row.unranked is None and metric.name in row.figures]
    best = min(candidates, key=lambda row: badness(row, metric), default=None)
    if best is None or not math.isfinite(badness(best, metric)):
        return rows
    worse = {
        row.contestant: replace(
            row.figures[metric.name],
            ratio=times_worse(samples[row.contestant], samples[best.contestant], metric),
        )
        for row in candidates
    }
    if rule is None:
        judged = judged_once(worse, best.contestant, runs, metric)
    else:
        judged = judged_at_any_time(worse, best.contestant, runs, metric, rule, family=len(rows))
    judged[best.contestant] = replace(
        worse[best.contestant], ratio=Estimate(1.0, None, None, best.done), best=True
    )
    return [
        replace(row, figures={**row.figures, metric.name: judged[row.contestant]})
        if row.contestant in judged
        else row
        for row in rows
    ]


def judged_once(
    figures: Mapping[str, Figure], best: str, runs: Mapping[str, Runs], metric: Metric
) -> dict[str, Figure]:
    """For a number of seeds that was fixed beforehand."""
    values = {name: run_values(runs[name], metric) for name in figures}
    chance = chances(values)
    judged = {}
    for name, figure in figures.items():
        p = chance.get(frozenset((name, best)))
        open_still = p is not None and p > ALPHA
        more = seeds_missing(values[name], values[best]) if open_still else None
        judged[name] = replace(figure, chance=p, more_seeds=more)
    return judged


def judged_at_any_time(
    figures: Mapping[str, Figure],
    best: str,
    runs: Mapping[str, Runs],
    metric: Metric,
    rule: Rule,
    family: int,
) -> dict[str, Figure]:
    """Where seeds were added as long as comparisons were open: chance and interval hold at any number."""
    scale = scale_of(metric, rule.within)
    column = None if scale.censorable else metric.column
    found = duels({name: seeded(runs[name], column) for name in figures}, scale, family)
    judged = {}
    for name, figure in figures.items():
        if name == best:
            continue
        duel = found[frozenset((name, best))].seen_from(best)
        ratio = figure.ratio
        if ratio is not None:
            point = ratio.point if math.isnan(duel.ratio) else duel.ratio
            ratio = Estimate(point, duel.low, duel.high, duel.seeds)
        judged[name] = replace(
            figure,
            ratio=ratio,
            chance=duel.chance,
            more_seeds=duel.more_seeds,
            equal_within=rule.within if duel.state == EQUAL else None,
        )
    return judged


def told_apart(figure: Figure) -> bool:
    """From the best: chance, corrected, is at most 5 %, and the interval of the ratio excludes 1.

    Without a ratio (it never got there) chance alone decides.
    """
    beyond_chance = figure.chance is None or figure.chance <= ALPHA
    if figure.ratio is None:
        return beyond_chance
    return beyond_chance and figure.ratio.low is not None and figure.ratio.low > 1


def scale_of(metric: Metric, within: float) -> Scale:
    return Scale(metric.more_is_better, metric is THRESHOLD, within)


def against(done: Runs, best: Runs, metric: Metric, rng: np.random.Generator) -> Estimate | None:
    """How many times worse than the best, from two contestants' finished runs."""
    mine, theirs = (metric_samples(runs, [metric], rng).get(metric.name) for runs in (done, best))
    return times_worse(mine, theirs, metric)


def times_worse(mine: Sample | None, best: Sample | None, metric: Metric) -> Estimate | None:
    if mine is None or best is None:
        return None
    if metric is THRESHOLD:
        return median_ratio(mine, best)
    over, under = (best, mine) if metric.more_is_better else (mine, best)
    return ratio_estimate(over, under) if over.point > 0 and under.point > 0 else None


def badness(row: Row, metric: Metric) -> float:
    figure = row.figures.get(metric.name)
    if figure is None:
        return math.inf
    return -figure.estimate.point if metric.more_is_better else figure.estimate.point


def rank_key(row: Row, primary: Metric) -> tuple[bool, bool, float, str]:
    return (row.unranked is not None, row.absent is not None, badness(row, primary), row.contestant)


def algorithm_name(axes: Mapping[str, Any]) -> str:
    name = str(axes["algorithm"])
    return ALGORITHM_NAMES.get(name, name)


def group_label(axes: Mapping[str, Any], setting: str) -> str:
    task = f"{algorithm_name(axes)} on {axes['environment']}"
    return f"{task}, {setting}" if setting else task


def setting_label(axes: dict[str, Any], varying: Sequence[str]) -> str:
    return ", ".join(
        axis_words(name, axes[name])
        for name in varying
        if name not in ("algorithm", "environment") and axes[name] is not None
    )


def axis_words(name: str, value: Any) -> str:
    plural = "" if value == 1 else "s"
    words = {
        "cores": f"{value} core{plural}",
        "workers": f"{value} worker{plural}",
        "device": str(value),
        "dtype": str(value),
        "division": f"{value} division",
        "max_episode_steps": f"episodes of at most {value} steps",
    }
    return words.get(name, f"{name.removeprefix('hyper.')} {value}")
