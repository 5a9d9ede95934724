"""Ways in which benchmarks mislead, looked for in the results that the report itself shows.

After Heiser's list (gernot-heiser.org/benchmarking-crimes.html) and van der Kouwe et al. (2018), as far as
records can show them. What they cannot show is reported as unknown, never as absent.
"""

from __future__ import annotations

import shlex
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from rldyno.answers import fixes
from rldyno.answers.groups import Group, Row
from rldyno.answers.trust import SEEDS
from rldyno.probe.summary import OVERSUBSCRIBED_SHARE
from rldyno.records.directory import run_command
from rldyno.records.status import DONE
from rldyno.report.material import Material
from rldyno.report.section import Section
from rldyno.results.load import Results
from rldyno.stats.estimates import ENOUGH_RUNS
from rldyno.text.numbers import counted
from rldyno.text.tables import Table

FOUND, CLEAR, UNKNOWN = "found", "clear", "unknown"
# Score of records.md: 0.1 is a tenth of the CPU time, or of a fixed piece of work, gone to something else.
NOISY = 0.1
# The same fixed work takes this many times as long: another machine, or one that throttles.
OTHER_MACHINE = 1.5
# Cost of the probe in percent of one core; the lab's own goal is half of it.
HEAVY_PROBE = 1.0
SHOWN = 6


@dataclass(frozen=True)
class Pitfall:
    name: str
    verdict: str
    evidence: str
    """What in the records shows it."""
    fix: str | None = None


def look_for(results: Results, groups: Sequence[Group]) -> list[Pitfall]:
    """Every pitfall that was looked for, those found first."""
    every = [check(results, groups) for check in CHECKS]
    return sorted(every, key=lambda pitfall: (FOUND, UNKNOWN, CLEAR).index(pitfall.verdict))


def too_few_seeds(results: Results, groups: Sequence[Group]) -> Pitfall:
    """Adaptive seeds may decide a comparison with fewer; then the gate does not object."""
    name = "Too few seeds"
    adaptive = results.manifest.adaptive is not None
    runs: dict[str, list[int]] = {}
    for group, row in ran(groups):
        if row.done < ENOUGH_RUNS and not (adaptive and group.trust.about(SEEDS) is None):
            runs.setdefault(row.contestant, []).append(row.done)
    if not runs:
        return Pitfall(name, CLEAR, f"at least {ENOUGH_RUNS} runs behind every number, or enough to decide")
    few = {
        f"{contestant}: {min(counts)}" + (f" in {len(counts)} comparisons" if len(counts) > 1 else "")
        for contestant, counts in runs.items()
    }
    evidence = f"fewer than {ENOUGH_RUNS} runs: {listed(few)}"
    return Pitfall(name, FOUND, evidence, fixes.enough_seeds(results))


def missing_spread(_: Results, groups: Sequence[Group]) -> Pitfall:
    name = "Numbers without spread"
    single = {f"{row.contestant} ({group.label})" for group, row in ran(groups) if row.done == 1}
    if not single:
        return Pitfall(name, CLEAR, "every number has its interval over seeds")
    return Pitfall(
        name, FOUND, f"one run shows no spread: {listed(single)}", "run at least two seeds, better five"
    )


def uncertified(_: Results, groups: Sequence[Group]) -> Pitfall:
    name = "Uncertified contestants"
    rows = [row for _, row in ran(groups) if not (row.certified or row.guest)]
    unproven = {f"{row.contestant} ({row.certificate_detail})" for row in rows}
    if not unproven:
        return Pitfall(name, CLEAR, "every contestant was proven to compute what the reference computes")
    fix = "`rldyno verify` proves contestants; until then they are shown hollow and not ranked"
    return Pitfall(name, FOUND, listed(unproven), fix)


def unequal_versions(results: Results, _: Sequence[Group]) -> Pitfall:
    """Within a contestant, and of what all contestants share: Python and NumPy run loop and environments."""
    name = "Unequal versions"
    changed = {
        f"{contestant}: {package} {' and '.join(sorted(found))}"
        for contestant, sets in results.versions.items()
        for package, found in distinct(sets).items()
        if len(found) > 1
    }
    shared = {
        package: {
            versions[package]
            for sets in results.versions.values()
            for versions in sets
            if package in versions
        }
        for package in ("python", "numpy")
    }
    unequal = {f"{package} {', '.join(sorted(found))}" for package, found in shared.items() if len(found) > 1}
    mixed = {
        f"{contestant}: two versions of the {part}"
        for contestant, sets in results.codes.items()
        for part, found in distinct(sets).items()
        if len(found) > 1
    }
    if mixed:
        fix = f"run the study again with one version of rldyno: {fixes.again(results)}"
        return Pitfall(name, FOUND, f"trials of one contestant ran different code: {listed(mixed)}", fix)
    if changed:
        fix = f"run the study again with one set of versions: {fixes.again(results)}"
        return Pitfall(
            name, FOUND, f"trials of one contestant ran with different packages: {listed(changed)}", fix
        )
    if unequal:
        fix = "pin one version in the toolchains where the frameworks allow it; else compare times with care"
        return Pitfall(name, FOUND, f"contestants do not share {listed(unequal)}", fix)
    if not results.versions:
        return Pitfall(name, UNKNOWN, "no trial recorded its versions")
    return Pitfall(name, CLEAR, "one set of versions per contestant; Python and NumPy are the same for all")


def distinct(sets: Iterable[Mapping[str, str]]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for versions in sets:
        for package, version in versions.items():
            found.setdefault(package, set()).add(str(version))
    return found


def noisy_runs(results: Results, _: Sequence[Group]) -> Pitfall:
    name = "Noisy runs"
    scores = finished(results)["noise_score"].drop_nulls().to_list()
    if not scores:
        return Pitfall(name, UNKNOWN, "no trial has a noise score")
    noisy = [score for score in scores if score > NOISY]
    worst = f"the worst score is {max(scores):.2f}"
    if not noisy:
        return Pitfall(name, CLEAR, f"{worst}, below {NOISY:g} in every trial")
    evidence = f"{len(noisy)} of {len(scores)} trials score above {NOISY:g}; {worst}"
    repeat = fixes.code(run_command(results.directory, max_noise=NOISY))
    fix = f"wait until the machine is idle, then repeat those trials: {repeat}"
    return Pitfall(name, FOUND, evidence, fix)


def selective_subset(results: Results, groups: Sequence[Group]) -> Pitfall:
    """Trials that the study plans and this report does not have."""
    name = "A selective subset"
    counts = results.trials.group_by("status", "reason").len()
    missing = {
        f"{row['len']} {row['reason'] or 'not run'}"
        for row in counts.iter_rows(named=True)
        if row["status"] != DONE
    }
    uneven = {group.label for group in groups if len({row.done for row in group.rows if row.done}) > 1}
    if missing or results.flaws:
        unread = {f"{len(results.flaws)} flawed records"} if results.flaws else set()
        evidence = f"of {len(results.trials)} planned trials these are missing: {listed(missing | unread)}"
        status = fixes.code(shlex.join(["rldyno", "status", str(results.directory)]))
        fix = f"{fixes.resume(results)} runs what is missing; {status} shows why trials failed"
        return Pitfall(name, FOUND, evidence, fix)
    left_out = list(results.manifest.left_out)
    rest = f"; left out, because it cannot run: {listed(left_out)}" if left_out else ""
    if uneven and results.manifest.adaptive:
        evidence = (
            "unequal numbers of runs by the rule of the study: more seeds for comparisons that were open"
        )
        return Pitfall(name, CLEAR, evidence + rest)
    if uneven:
        fix = "run every contestant with the same seeds"
        return Pitfall(name, FOUND, f"contestants have unequal numbers of runs: {listed(uneven)}", fix)
    return Pitfall(name, CLEAR, f"all {len(results.trials)} trials of the study are here{rest}")


def stopped_at_a_good_moment(results: Results, _: Sequence[Group]) -> Pitfall:
    """Seeds that are added until the answer is the wanted one make chance look like an effect."""
    name = "Stopping when it looks good"
    if results.manifest.adaptive:
        return Pitfall(name, CLEAR, "seeds were added by a rule whose tests hold for every number of seeds")
    added = [
        change
        for amendment in results.manifest.amended
        for change in amendment.changes
        if amendment.after_results and change.startswith("seeds: ")
    ]
    if added:
        fix = f"{run_command(results.directory, seeds='5..30')} adds seeds by a rule that allows for it"
        return Pitfall(name, FOUND, f"seeds were changed after trials had run: {listed(added)}", fix)
    return Pitfall(name, CLEAR, "the number of seeds was fixed before the first trial")


def changed_study(results: Results, _: Sequence[Group]) -> Pitfall:
    """Any other key than the seeds; and a copy of the study that shows another one than ran."""
    name = "A study that changed on the way"
    if results.study_note:
        fix = "read the study that ran below, under Reproduce" if results.manifest.study_text else None
        return Pitfall(name, FOUND, results.study_note, fix)
    changes = [
        f"{amendment.at}: {change}"
        for amendment in results.manifest.amended
        for change in amendment.changes
        if amendment.after_results and not change.startswith("seeds: ")
    ]
    if changes:
        again = run_command(results.directory, out=Path("NEW"))
        fix = f"run the study as it is now into a new directory: {again}"
        return Pitfall(name, FOUND, f"changed after trials had run: {listed(changes)}", fix)
    return Pitfall(name, CLEAR, "apart from seeds, the study is the one that the run began with")


def mixed_machines(results: Results, _: Sequence[Group]) -> Pitfall:
    name = "Mixed or unsteady machines"
    known = finished(results).select("cores", "calibration_ns").drop_nulls()
    speeds = known.group_by("cores").agg(
        pl.col("calibration_ns").quantile(0.95).alias("slow"),
        pl.col("calibration_ns").quantile(0.05).alias("fast"),
    )
    spread = max((slow / fast for _, slow, fast in speeds.iter_rows() if fast), default=None)
    if spread is None:
        return Pitfall(name, UNKNOWN, "no trial has a calibration")
    if spread > OTHER_MACHINE:
        evidence = (
            f"a fixed piece of work took {spread:.1f} times as long before some trials as before others"
        )
        return Pitfall(
            name,
            FOUND,
            evidence,
            "run all trials on one machine, at a fixed clock, with nothing else running",
        )
    where = results.manifest.machine.cpu or "one machine"
    evidence = (
        f"{where}; a fixed piece of work took the same time before every trial, within a factor {spread:.2f}"
    )
    return Pitfall(name, CLEAR, evidence)


def hidden_budget_cuts(_: Results, groups: Sequence[Group]) -> Pitfall:
    """A wall-clock limit stops slow contestants at fewer steps, which no learning curve shows by itself."""
    name = "Hidden budget cuts"
    cut = {
        f"{contestant} ({group.label}): {hits}"
        for group in groups
        for contestant, hits in wall_hits(group).items()
    }
    if not cut:
        return Pitfall(name, CLEAR, "no run was stopped by a wall-clock limit before its goal")
    evidence = f"runs that the wall-clock limit ended before the goal: {listed(cut)}"
    return Pitfall(name, FOUND, evidence, "limit `steps` instead of `wall_s`, or raise `wall_s`")


def wall_hits(group: Group) -> dict[str, int]:
    short = ~pl.col("threshold_reached").fill_null(value=False)
    stopped = group.trials.filter(pl.col("status") == DONE, pl.col("reason") == "wall", short)
    return dict(stopped.group_by("contestant").len().iter_rows())


def one_after_the_other(results: Results, _: Sequence[Group]) -> Pitfall:
    name = "All of A, then all of B"
    done = finished(results)
    together = done.group_by("block").agg(pl.col("contestant").n_unique())["contestant"]
    if done["contestant"].n_unique() < 2:
        return Pitfall(name, CLEAR, "there is only one contestant")
    if done["block"].null_count():
        return Pitfall(name, UNKNOWN, "the trials do not record in which block they ran")
    if together.max() == 1:
        fix = "let `rldyno run` order the trials: it interleaves contestants in random blocks"
        return Pitfall(name, FOUND, "no two contestants ran in the same block", fix)
    return Pitfall(
        name, CLEAR, "contestants were interleaved in random blocks, so drift affects all of them equally"
    )


def disturbing_probe(results: Results, _: Sequence[Group]) -> Pitfall:
    name = "A measurement that disturbs"
    cost = finished(results)["probe_core_percent"].drop_nulls().to_list()
    if not cost:
        return Pitfall(name, UNKNOWN, "the cost of the probe was not recorded")
    usual = statistics.median(cost)
    words = f"the probe used {usual:.2f} % of one core, {max(cost):.2f} % at most"
    if usual > HEAVY_PROBE:
        return Pitfall(name, FOUND, words, "lower the sampling rate, or leave a core free for the probe")
    return Pitfall(name, CLEAR, words)


def memory_leaks(results: Results, _: Sequence[Group]) -> Pitfall:
    """The memory of a run that leaks depends on its length."""
    name = "Memory that leaks"
    known = finished(results).filter(pl.col("memory_leak").is_not_null())
    if known.is_empty():
        return Pitfall(name, UNKNOWN, "no trial was long enough to see memory grow")
    leaking = known.filter(pl.col("memory_leak")).group_by("contestant")
    rates = leaking.agg(pl.len(), pl.col("memory_growth_bytes_per_s").median() / 2**20)
    found = {
        f"{contestant}: {count} trials, {rate:.2g} MiB/s" for contestant, count, rate in rates.iter_rows()
    }
    if not found:
        return Pitfall(name, CLEAR, f"memory stays constant to the end of training in {len(known)} trials")
    return Pitfall(name, FOUND, listed(found), "compare the memory of runs of equal length only")


def oversubscribed(results: Results, _: Sequence[Group]) -> Pitfall:
    name = "More threads than cores"
    known = finished(results).drop_nulls("oversubscribed_share")
    if known.is_empty():
        why = results.why_empty("oversubscribed_share")
        return Pitfall(name, UNKNOWN, f"runnable threads were not counted: {why or 'no trial is done'}")
    crowded = known.filter(pl.col("oversubscribed_share") >= OVERSUBSCRIBED_SHARE)
    if crowded.is_empty():
        most = max(known["threads_runnable_mean"].drop_nulls().to_list(), default=0.0)
        return Pitfall(name, CLEAR, f"at most {most:.1f} threads were runnable at one time, on average")
    cores_of_all = pl.col("cores") * pl.col("workers")
    # Older records have only those that could run.
    threads = pl.coalesce("threads_competing_mean", "threads_runnable_mean").max()
    counts = crowded.group_by("contestant", cores_of_all).agg(pl.len(), threads)
    found = {
        f"{contestant}: up to {most:.1f} threads on {counted(cores, 'core')} in {counted(trials, 'trial')}"
        for contestant, cores, trials, most in counts.iter_rows()
    }
    fix = "raise `cores`, or lower the thread count of its libraries in the toolchain"
    return Pitfall(name, FOUND, f"threads had to wait for each other: {listed(found)}", fix)


def finished(results: Results) -> pl.DataFrame:
    return results.trials.filter(pl.col("status") == DONE)


def ran(groups: Sequence[Group]) -> list[tuple[Group, Row]]:
    return [(group, row) for group in groups for row in group.rows if row.done]


def listed(items: Iterable[str]) -> str:
    """The first few, in order, and how many more there are."""
    ordered = sorted(items)
    rest = len(ordered) - SHOWN
    return "; ".join(ordered[:SHOWN]) + (f"; and {rest} more" if rest > 0 else "")


CHECKS: tuple[Callable[[Results, Sequence[Group]], Pitfall], ...] = (
    too_few_seeds,
    missing_spread,
    uncertified,
    unequal_versions,
    noisy_runs,
    selective_subset,
    stopped_at_a_good_moment,
    changed_study,
    mixed_machines,
    hidden_budget_cuts,
    one_after_the_other,
    disturbing_probe,
    memory_leaks,
    oversubscribed,
)


def pitfalls_of(material: Material) -> list[Pitfall]:
    return material.analysis.once("pitfalls", lambda: look_for(material.results, material.groups))


def context(material: Material) -> dict[str, Any]:
    return {"pitfalls": pitfalls_of(material)}


def tables(material: Material) -> list[Table]:
    rows = tuple(
        (item.name, item.verdict, item.evidence, (item.fix or "–").replace("`", ""))
        for item in pitfalls_of(material)
    )
    title = "Benchmarking pitfalls that were looked for"
    return [Table("pitfalls", title, ("Pitfall", "Verdict", "Evidence", "Fix"), rows)]


SECTION = Section(
    id="pitfalls",
    order=170,
    title="Benchmarking pitfalls",
    about="known ways in which benchmarks mislead, looked for in these results",
    short="Pitfalls",
    tables=tables,
    context=context,
    shown=lambda _: True,
)
