"""The manifest of a run, and whether a run that continues still has the same study and conditions."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from importlib import metadata
from typing import TYPE_CHECKING

import rldyno
from rldyno.errors import Problem
from rldyno.machine.facts import machine_facts
from rldyno.records.directory import ResultsDirectory, run_command
from rldyno.records.files import now_iso
from rldyno.records.manifest import AdaptiveSeeds, Amendment, Manifest, ToolchainFacts
from rldyno.records.provenance import git_revision
from rldyno.records.trial_state import trial_state

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rldyno.studies.given import GivenStudy
    from rldyno.study.file import Study
    from rldyno.study.plan import Plan
    from rldyno.toolchains.resolve import Interpreter

_SAME_MACHINE = ("cpu", "architecture", "cores_logical")
"""Facts that must not change while a run continues."""


def _version(name: str) -> str | None:
    """None where a package is missing: a run needs fewer packages than a report."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def make_manifest(
    plan: Plan, given: GivenStudy, interpreters: Mapping[str, Interpreter], earlier: Manifest | None
) -> Manifest:
    """The manifest of this run. A run that continues keeps what `earlier` holds of its beginning."""
    from rldyno.study.origins import untuned

    before = earlier or Manifest(started_at=now_iso())
    return Manifest(
        rldyno=rldyno.__version__,
        git_revision=git_revision(),
        title=plan.study.title,
        study_sha256=plan.study.sha256,
        study_text=given.text,
        study_path=given.path or before.study_path,
        started_at=before.started_at,
        resumed_at=(*before.resumed_at, now_iso()) if earlier else (),
        machine=machine_facts(),
        versions={
            "python": platform.python_version(),
            **{name: _version(name) for name in ("numpy", "polars")},
        },
        limits=before.limits,
        idle_cpu_percent=before.idle_cpu_percent,
        toolchains={**before.toolchains, **toolchain_facts(interpreters)},
        left_out=tuple(plan.study.left_out),
        untuned=untuned(plan.study),
        amended=before.amended,
        adaptive=adaptive_seeds(plan.study, earlier),
        trials=tuple(trial.id for trial in plan.trials),
    )


def adaptive_seeds(study: Study, earlier: Manifest | None) -> AdaptiveSeeds | None:
    """The rule for adding seeds and the interim checks made so far; None for fixed seeds."""
    if study.adaptive is None:
        return None
    checks = earlier.adaptive.checks if earlier and earlier.adaptive else ()
    return AdaptiveSeeds(**study.adaptive.model_dump(), checks=checks)


def toolchain_facts(interpreters: Mapping[str, Interpreter]) -> dict[str, ToolchainFacts]:
    return {
        name: ToolchainFacts(
            interpreter.python, interpreter.origin, interpreter.variant, interpreter.versions
        )
        for name, interpreter in interpreters.items()
    }


@dataclass(frozen=True)
class StudyChange:
    """How the study differs from the one that the run began with."""

    lines: tuple[str, ...]
    """One per key: `seeds: 3 → 5`."""
    text_before: str
    only_more_seeds: bool

    def amendment(self, directory: ResultsDirectory, earlier: Manifest) -> Amendment:
        ended = sum(trial_state(directory.trial(trial)).ended for trial in earlier.trials)
        return Amendment(now_iso(), self.lines, self.text_before, ended)


def study_change(directory: ResultsDirectory, earlier: Manifest, study: Study) -> StudyChange | None:
    """None when it is still the same study. The one before is that of the manifest, never an edited copy."""
    from rldyno.study.file import differences
    from rldyno.study.recorded import check_recorded, recorded_study

    if earlier.study_sha256 == study.sha256:
        return None
    recorded = recorded_study(directory, earlier)
    if not recorded.certain:
        return StudyChange((f"the study, of which the earlier version is lost: {recorded.note}",), "", False)
    try:
        before = check_recorded(directory.study, recorded.text)
    except Problem as problem:
        lost = f"the study, of which the earlier version can no longer be read: {problem.message}"
        return StudyChange((lost,), recorded.text, False)
    lines = tuple(differences(before, study))
    if not lines:
        return None
    more_seeds = all(line.startswith("seeds: ") for line in lines) and set(before.seeds) <= set(study.seeds)
    return StudyChange(lines, recorded.text, more_seeds)


def check_same_study(directory: ResultsDirectory, change: StudyChange, *, seeds_given: bool) -> None:
    """A Problem that lists the differences. `--seeds` itself says that more seeds are wanted."""
    if seeds_given and change.only_more_seeds:
        return
    fix = (
        "run into a new directory with --out NEW, or continue here with --amend: trials that the "
        "change does not affect are kept"
    )
    go_on = f"; to go on with the study that ran: {run_command(directory.root)}"
    raise Problem(
        f"the study has changed since the run in {directory.root} began",
        detail="\n".join(change.lines),
        fix=fix + go_on,
    )


def keep_edited_copy(directory: ResultsDirectory, earlier: Manifest, say: Callable[[str], None]) -> None:
    """Move a copy of the study that someone edited out of the way of the true one, and say so."""
    from rldyno.study.recorded import recorded_study

    recorded = recorded_study(directory, earlier)
    if recorded.note and directory.study.exists():
        kept = directory.study.with_name("study.edited.toml")
        directory.study.replace(kept)
        say(f"{recorded.note}; it is now {kept}")


def check_same_conditions(directory: ResultsDirectory, earlier: Manifest, manifest: Manifest) -> None:
    """A Problem when trials would come from two machines or from two versions of a package."""
    before, now = earlier.machine, manifest.machine
    changes = [
        f"machine: {fact} was {getattr(before, fact)}, is {getattr(now, fact)}"
        for fact in _SAME_MACHINE
        if getattr(before, fact) != getattr(now, fact)
    ]
    for framework, facts in manifest.toolchains.items():
        old, new = earlier.toolchains.get(framework, facts).versions, facts.versions
        changes += [
            f"{framework}: {package} was {old.get(package, 'absent')}, is {new.get(package, 'absent')}"
            for package in sorted(old.keys() | new.keys())
            if old.get(package) != new.get(package)
        ]
    if changes:
        raise Problem(
            f"the conditions have changed since the run in {directory.root} began",
            detail="\n".join(changes),
            fix="run into a new directory with --out NEW, or accept both conditions with --amend",
        )
