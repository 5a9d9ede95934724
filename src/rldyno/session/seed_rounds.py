"""The rounds of a run: all trials at once, block by block within given hours, or seeds added where needed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import TYPE_CHECKING

from rldyno.records.directory import ResultsDirectory
from rldyno.records.files import now_iso
from rldyno.records.interim import GroupFinding
from rldyno.records.manifest import AdaptiveSeeds, InterimCheck, Manifest
from rldyno.records.trial_state import trial_state
from rldyno.study.plan import Cell, Plan, Trial

if TYPE_CHECKING:
    from rich.console import Console

    from rldyno.answers.adaptive import GroupCheck

RunTrials = Callable[[Plan], None]
"""Runs those trials of a plan that are not done."""


@dataclass
class Hours:
    """The time that a run may take. It is checked between rounds only."""

    limit_s: float | None
    began: float = field(default_factory=time.monotonic)
    last_round_s: float = 0.0

    def spent(self) -> bool:
        """Whether a round as long as the last one would not end in time."""
        if self.limit_s is None:
            return False
        return time.monotonic() - self.began + self.last_round_s > self.limit_s

    def timed(self, run: RunTrials, plan: Plan) -> None:
        began = time.monotonic()
        run(plan)
        self.last_round_s = time.monotonic() - began


def current_plan(plan: Plan, manifest: Manifest | None) -> Plan:
    """The opening trials and those that interim checks have added so far."""
    known = set(manifest.trials) if manifest else set()
    opening = {trial.id for trial in plan.opening}
    return replace(plan, trials=tuple(trial for trial in plan.trials if trial.id in opening | known))


def run_opening(plan: Plan, run: RunTrials, hours: Hours) -> None:
    """The trials that always run; with limited hours in whole blocks, which are balanced."""
    if hours.limit_s is None:
        run(plan)
        return
    for _, block in groupby(plan.trials, key=lambda trial: trial.block):
        if hours.spent():
            return
        hours.timed(run, replace(plan, trials=tuple(block)))


def add_seeds(
    directory: ResultsDirectory,
    plan: Plan,
    manifest: Manifest,
    run: RunTrials,
    hours: Hours,
    console: Console,
) -> Manifest:
    """Check, add a seed to the contestants of open comparisons, run it, and repeat; the manifest at the end.

    A check depends on the records alone, and is written before the trials that it adds run: a run that was
    killed continues with the same decisions.
    """
    rule = manifest.adaptive
    if rule is None or not directory.has_outcomes():
        return manifest
    from rldyno.answers import adaptive
    from rldyno.results.load import load_results

    while True:
        so_far = current_plan(plan, manifest)
        group_checks = adaptive.interim_checks(load_results(directory.root), rule)
        added = next_seeds(plan, so_far, group_checks)
        ended = None
        if hours.spent() and (added or unfinished(directory, so_far)):
            added, ended = [], "hours"
        elif not added:
            ended = adaptive.ending(group_checks)
        manifest = with_check(manifest, group_checks, len(added), ended)
        wanted = {trial.id for trial in (*so_far.trials, *added)}
        ids = tuple(trial.id for trial in plan.trials if trial.id in wanted)
        manifest = replace(manifest, trials=ids)
        directory.write_manifest(manifest)
        report_check(group_checks, added, ended, rule, console)
        if ended:
            return manifest
        hours.timed(run, replace(plan, trials=tuple(added)))


def unfinished(directory: ResultsDirectory, plan: Plan) -> bool:
    return not all(trial_state(directory.trial(trial.id)).ended for trial in plan.trials)


def next_seeds(plan: Plan, so_far: Plan, group_checks: Iterable[GroupCheck]) -> list[Trial]:
    """For each open comparison the first seed that one of the two contestants has not run."""
    trials = {trial.id: trial for trial in plan.trials}
    by_place: dict[tuple[Cell, int], Trial] = {(trial.cell, trial.block): trial for trial in plan.trials}
    present = {(trial.cell, trial.block) for trial in so_far.trials}
    wanted: set[tuple[Cell, int]] = set()
    for group in group_checks:
        for open_pair in group.wanting:
            cells = [trials[group.trials[name]].cell for name in (open_pair.first, open_pair.second)]
            for block in range(len(plan.study.seeds)):
                missing = {(cell, block) for cell in cells} - present
                if missing:
                    wanted |= missing
                    break
    ids = {by_place[place].id for place in wanted}
    return [trial for trial in plan.trials if trial.id in ids]


def with_check(
    manifest: Manifest, group_checks: Sequence[GroupCheck], added: int, ended: str | None
) -> Manifest:
    """With this interim check, of the groups that changed since the last; without it when nothing changed."""
    from rldyno.answers import adaptive

    if manifest.adaptive is None:
        return manifest
    known = adaptive.latest_checks(manifest)
    changed = tuple(check.found for check in group_checks if not unchanged(check.found, known))
    check = InterimCheck(now_iso(), added, changed)
    checks = manifest.adaptive.checks
    if check.groups or added:
        checks = (*checks, check)
    return replace(manifest, adaptive=replace(manifest.adaptive, checks=checks, ended=ended))


def unchanged(found: GroupFinding, known: Mapping[str, GroupFinding]) -> bool:
    """As written: a number that is not known yet differs from itself."""
    return found.label in known and known[found.label].to_json() == found.to_json()


def report_check(
    group_checks: Sequence[GroupCheck],
    added: Sequence[Trial],
    ended: str | None,
    rule: AdaptiveSeeds,
    console: Console,
) -> None:
    from rldyno.answers import adaptive
    from rldyno.text.numbers import counted

    lines = adaptive.check_lines(group_checks, rule)
    if ended:
        lines.append(f"no more seeds: {adaptive.ENDINGS[ended]}")
    else:
        seeds = sorted({trial.seed for trial in added})
        lines.append(f"adding {counted(len(added), 'trial')}, seed {', '.join(map(str, seeds))}")
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)
