"""Whether the code has changed since trials of a results directory ran, and what has to be proven again."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rldyno.errors import Problem
from rldyno.proofs.certificate import VALID, Subject
from rldyno.proofs.store import code_hashes
from rldyno.records.directory import ResultsDirectory
from rldyno.records.status import DONE
from rldyno.records.trial_records import read_facts
from rldyno.records.trial_state import trial_state
from rldyno_rig.contestant import Contestant
from rldyno_rig.hyper import network_kind
from rldyno_rig.schema import FACTS_FILE
from rldyno_rig.shape import Shape

if TYPE_CHECKING:
    from rich.console import Console

    from rldyno.study.plan import Plan
    from rldyno.toolchains.resolve import Interpreter

PARTS = {
    "backend_sha256": "its backend",
    "reference_sha256": "the reference",
    "rig_sha256": "the rig's shared code",
}


# What a certificate covers.
PROVEN = {PARTS["backend_sha256"], PARTS["reference_sha256"]}


def changed_code(directory: ResultsDirectory, plan: Plan) -> dict[str, list[str]]:
    """Contestant → the parts of its code that changed since its finished trials ran; only changed ones."""
    ran: dict[str, dict[str, set[str]]] = {}
    for trial in plan.trials:
        home = directory.trial(trial.id)
        if not trial_state(home).done or not (home / FACTS_FILE).exists():
            continue
        facts = read_facts(home)
        for name in PARTS:
            if found := getattr(facts, name):
                ran.setdefault(trial.cell.contestant, {}).setdefault(name, set()).add(found)
    changed = {}
    for contestant, hashes in ran.items():
        now = code_hashes(Contestant.parse(contestant).framework)
        parts = [PARTS[name] for name, found in hashes.items() if found != {now[name]}]
        if parts:
            changed[contestant] = parts
    return changed


def check_same_code(
    directory: ResultsDirectory, changed: Mapping[str, list[str]], to_run: Collection[str]
) -> None:
    """A Problem when the next trials of a contestant would run other code than its finished trials."""
    mixed = [f"{name}: {', '.join(parts)}" for name, parts in sorted(changed.items()) if name in to_run]
    if mixed:
        raise Problem(
            f"the code has changed since trials in {directory.root} ran: new trials would not be comparable",
            detail="\n".join(mixed),
            fix="run into a new directory with --out NEW, or accept both versions with --amend",
        )


def to_prove(
    planned: Iterable[Subject],
    finished: Collection[Subject],
    changed: Mapping[str, list[str]],
    to_run: Collection[str],
    interpreters: Mapping[str, Interpreter],
) -> list[Subject]:
    """What is about to run, and what has finished without a proof while the code is still the same."""
    provable = {subject for subject in finished if not PROVEN & set(changed.get(str(subject.contestant), ()))}
    return [
        subject
        for subject in sorted({*planned, *finished})
        if subject.framework in interpreters
        and interpreters[subject.framework].has(subject.collective)
        and (str(subject.contestant) in to_run or subject in provable)
    ]


def unproven(directory: ResultsDirectory) -> set[Subject]:
    """Of finished trials whose certificate is missing, failed or of other code."""
    if not directory.has_outcomes():
        return set()
    from rldyno.results.load import load_results

    loaded = load_results(directory.root)
    found = set()
    for row in loaded.trials.iter_rows(named=True):
        if row["status"] == DONE and row["certificate"] != VALID:
            network = network_kind(loaded.hypers[row["trial"]].get("convolutions") or ())
            subject = Subject.of(row["contestant"], row["algorithm"], network, row["device"])
            found |= {subject, replace(subject, shape=shape_that_ran(directory.trial(row["trial"])))}
            if row["workers"] > 1:
                found.add(subject.in_a_team(row["collective"], share_gpu=row["share_gpu"]))
    return found


def shape_that_ran(home: Path) -> Shape | None:
    """None where a trial left no facts, or is older than shapes."""
    return read_facts(home).shape if (home / FACTS_FILE).exists() else None


def report_changes(
    directory: ResultsDirectory,
    changed: Mapping[str, list[str]],
    to_run: Collection[str],
    console: Console,
) -> None:
    """Say which finished trials ran other code than today's, and which contestants mix both."""
    uncertified = {str(subject.contestant) for subject in unproven(directory)} if changed else set()
    for contestant, parts in sorted(changed.items()):
        line = change_sentence(contestant, parts, contestant in uncertified, contestant in to_run)
        console.print(line, style="yellow", markup=False, highlight=False, soft_wrap=True)


def change_sentence(contestant: str, parts: list[str], uncertified: bool, mixed: bool) -> str:
    verb = "has" if len(parts) == 1 else "have"
    change = f"{contestant}: {' and '.join(parts)} {verb} changed since its trials ran"
    if uncertified and PROVEN & set(parts):
        return f"{change}; the code that ran can no longer be proven: run it again with --out NEW to rank it"
    if mixed:
        return f"{change}; its other trials run the new code, and the report shows this"
    return f"{change}; its trials are kept, and --out NEW measures the new code"
