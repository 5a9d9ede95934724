"""A results directory that is worked on again: do its trials, its certificates and the code still agree?"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from rldyno.errors import Problem
from rldyno.proofs import certificates
from rldyno.proofs.certificates import Subject
from rldyno.records import files as records
from rldyno.records.files import DONE, Results
from rldyno_rig.hyper import network_kind
from rldyno_rig.schema import FACTS_FILE, OUTCOME_FILE

if TYPE_CHECKING:
    from rich.console import Console

    from rldyno.study.plan import Plan
    from rldyno.toolchains.resolve import Interpreter

PARTS = {
    "backend_sha256": "its backend",
    "reference_sha256": "the reference",
    "rig_sha256": "the rig's shared code",
}


# A certificate speaks of these alone.
PROVEN = {PARTS["backend_sha256"], PARTS["reference_sha256"]}


def changed_code(results: Results, plan: Plan) -> dict[str, list[str]]:
    """Contestant → what has changed of the code that its finished trials ran; the others are left out."""
    ran: dict[str, dict[str, set[str]]] = {}
    for trial in plan.trials:
        home = results.trial(trial.id)
        if records.trial_state(home).name != DONE or not (home / FACTS_FILE).exists():
            continue
        facts = records.read_json(home / FACTS_FILE)
        for name in PARTS:
            if facts.get(name):
                ran.setdefault(trial.cell.contestant, {}).setdefault(name, set()).add(facts[name])
    changed = {}
    for contestant, hashes in ran.items():
        now = certificates.code_hashes(contestant.partition(":")[0])
        parts = [PARTS[name] for name, found in hashes.items() if found != {now[name]}]
        if parts:
            changed[contestant] = parts
    return changed


def check_same_code(results: Results, changed: Mapping[str, list[str]], to_run: Collection[str]) -> None:
    """A Problem when trials to come would run other code than the finished ones of their contestant."""
    mixed = [f"{name}: {', '.join(parts)}" for name, parts in sorted(changed.items()) if name in to_run]
    if mixed:
        raise Problem(
            f"the code has changed since trials in {results.root} ran: the rest would not be comparable",
            detail="\n".join(mixed),
            fix="start afresh with --out NEW, or mix them knowingly with --amend",
        )


def to_prove(
    results: Results,
    plan: Plan,
    changed: Mapping[str, list[str]],
    to_run: Collection[str],
    interpreters: Mapping[str, Interpreter],
) -> list[Subject]:
    """What is about to run, and what has run without a certificate while the code is still the same."""
    bare = {subject for subject in unproven(results) if not PROVEN & set(changed.get(subject.contestant, ()))}
    return [
        subject
        for subject in certificates.subjects(plan)
        if subject.framework in interpreters and (subject.contestant in to_run or subject in bare)
    ]


def unproven(results: Results) -> set[Subject]:
    """Of finished trials whose certificate is missing, failed or of other code."""
    from rldyno.results.load import VALID, load_results

    if not any(results.trials.glob(f"*/{OUTCOME_FILE}")):
        return set()
    loaded = load_results(results.root)
    return {
        Subject(
            row["contestant"],
            row["algorithm"],
            network_kind(loaded.hypers[row["trial"]].get("convolutions") or ()),
            row["device"],
        )
        for row in loaded.trials.iter_rows(named=True)
        if row["status"] == DONE and row["certificate"] != VALID
    }


def tell(
    results: Results, changed: Mapping[str, list[str]], to_run: Collection[str], console: Console
) -> None:
    """What stays as it was although the code has moved on, and what is mixed knowingly."""
    bare = {subject.contestant for subject in unproven(results)} if changed else set()
    for contestant, parts in sorted(changed.items()):
        line = change_words(contestant, parts, contestant in bare, contestant in to_run)
        console.print(line, style="yellow", markup=False, highlight=False, soft_wrap=True)


def change_words(contestant: str, parts: list[str], bare: bool, mixed: bool) -> str:
    verb = "has" if len(parts) == 1 else "have"
    said = f"{contestant}: {' and '.join(parts)} {verb} changed since its trials ran"
    if bare and PROVEN & set(parts):
        return f"{said}; what ran can no longer be proven: run it afresh with --out NEW to have it ranked"
    if mixed:
        return f"{said}; its other trials will run the code of today, and the report will say so"
    return f"{said}; they stay what they were, and --out NEW measures the code of today"
