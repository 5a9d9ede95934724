"""In which rounds a study runs: all at once, block by block while hours last, or seeds added where needed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

from rldyno.records import files as records
from rldyno.records.files import Json, Results
from rldyno.study.plan import Cell, Plan, Trial
from rldyno_rig.schema import OUTCOME_FILE

if TYPE_CHECKING:
    from rich.console import Console

    from rldyno.answers.looks import Standing

RunTrials = Callable[[Plan], None]
"""Runs those trials of a plan that are not done."""


@dataclass
class Hours:
    """The time that a run may take; it is only asked between rounds."""

    limit_s: float | None
    began: float = field(default_factory=time.monotonic)
    last_round_s: float = 0.0

    def spent(self) -> bool:
        """Whether a round as long as the last one would not end in time."""
        if self.limit_s is None:
            return False
        return time.monotonic() - self.began + self.last_round_s > self.limit_s

    def timed(self, run: RunTrials, part: Plan) -> None:
        began = time.monotonic()
        run(part)
        self.last_round_s = time.monotonic() - began


def begun(plan: Plan, earlier: Json | None) -> Plan:
    """The opening trials, and those that earlier looks added."""
    known = {str(trial) for trial in (earlier or {}).get("trials", ())}
    opening = {trial.id for trial in plan.opening}
    return replace(plan, trials=tuple(trial for trial in plan.trials if trial.id in opening | known))


def run_opening(part: Plan, run: RunTrials, hours: Hours) -> None:
    """What the study certainly asks for; with limited hours in whole blocks, which are balanced."""
    if hours.limit_s is None:
        run(part)
        return
    for _, block in groupby(part.trials, key=lambda trial: trial.block):
        if hours.spent():
            return
        hours.timed(run, replace(part, trials=tuple(block)))


def add_seeds(
    results: Results, plan: Plan, manifest: Json, run: RunTrials, hours: Hours, console: Console
) -> Plan:
    """Look, add a seed to the contestants of open comparisons, run it, and so on; return all trials begun.

    A look depends on the records alone, and is written before what it asks for is run: a run that was killed
    goes on with the same decisions.
    """
    from rldyno.answers import looks
    from rldyno.answers.duels import rule_of
    from rldyno.results.load import load_results

    part = begun(plan, manifest)
    rule = rule_of(manifest)
    if rule is None or not any(results.trials.glob(f"*/{OUTCOME_FILE}")):
        return part
    while True:
        standings = looks.look(load_results(results.root), rule)
        following = next_seeds(plan, part, standings)
        ended = None
        if hours.spent() and (following or unfinished(results, part)):
            following, ended = [], "hours"
        elif not following:
            ended = looks.ending(standings)
        wanted = {trial.id for trial in (*part.trials, *following)}
        part = replace(plan, trials=tuple(trial for trial in plan.trials if trial.id in wanted))
        note_look(manifest, standings, len(following), ended)
        manifest["trials"] = [trial.id for trial in part.trials]
        records.write_json(results.manifest, manifest)
        tell(standings, following, ended, rule.within, console)
        if ended:
            return part
        hours.timed(run, replace(plan, trials=tuple(following)))


def unfinished(results: Results, part: Plan) -> bool:
    ended = (records.DONE, records.FAILED)
    return any(records.trial_state(results.trial(trial.id)).name not in ended for trial in part.trials)


def next_seeds(plan: Plan, part: Plan, standings: Iterable[Standing]) -> list[Trial]:
    """For each open comparison the first seed that one of its two has not run."""
    trials = {trial.id: trial for trial in plan.trials}
    by_place: dict[tuple[Cell, int], Trial] = {(trial.cell, trial.block): trial for trial in plan.trials}
    there = {(trial.cell, trial.block) for trial in part.trials}
    wanted: set[tuple[Cell, int]] = set()
    for group in standings:
        for duel in group.open:
            pair = [trials[group.trials[name]].cell for name in (duel.first, duel.second)]
            for block in range(len(plan.study.seeds)):
                missing = {(cell, block) for cell in pair} - there
                if missing:
                    wanted |= missing
                    break
    ids = {by_place[place].id for place in wanted}
    return [trial for trial in plan.trials if trial.id in ids]


def note_look(manifest: Json, standings: Sequence[Standing], added: int, ended: str | None) -> None:
    """Append the look, of groups that changed since the last; none when nothing did."""
    from rldyno.answers import looks

    known = looks.latest(manifest)
    found = looks.look_json(standings, records.now_iso(), added)
    found["groups"] = [group for group in found["groups"] if known.get(group["label"]) != group]
    adaptive: dict[str, Any] = manifest["adaptive"]
    if found["groups"] or added:
        adaptive["looks"].append(found)
    adaptive["ended"] = ended


def tell(
    standings: Sequence[Standing],
    following: Sequence[Trial],
    ended: str | None,
    within: float,
    console: Console,
) -> None:
    from rldyno.answers import looks
    from rldyno.answers.duels import OPEN

    every = [duel for group in standings for duel in group.duels]
    open_ = sum(duel.state == OPEN for duel in every)
    lines = [f"look: {len(every) - open_} of {len(every)} comparisons decided, {open_} open"]
    lines += [
        f"  {group.label}: {looks.duel_words(looks.duel_json(duel), within)}"
        for group in standings
        for duel in group.open
    ]
    if ended:
        lines.append(f"no more seeds: {looks.ENDINGS[ended]}")
    else:
        seeds = sorted({trial.seed for trial in following})
        lines.append(f"adding {looks.counted(len(following), 'trial')}, seed {', '.join(map(str, seeds))}")
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)
