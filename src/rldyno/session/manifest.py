"""The manifest of a run, and whether a run that continues still has the same study and conditions."""

from __future__ import annotations

import platform
from dataclasses import replace
from importlib import metadata
from typing import TYPE_CHECKING

import rldyno
from rldyno.errors import Problem
from rldyno.machine.facts import machine_facts
from rldyno.records.directory import ResultsDirectory
from rldyno.records.files import now_iso
from rldyno.records.manifest import AdaptiveSeeds, Amendment, Manifest, ToolchainFacts
from rldyno.records.provenance import git_revision

if TYPE_CHECKING:
    from collections.abc import Mapping

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


def make_manifest(plan: Plan, interpreters: Mapping[str, Interpreter], earlier: Manifest | None) -> Manifest:
    """The manifest of this run. A run that continues keeps what `earlier` holds of its beginning."""
    before = earlier or Manifest(started_at=now_iso())
    return Manifest(
        rldyno=rldyno.__version__,
        git_revision=git_revision(),
        title=plan.study.title,
        study_sha256=plan.study.sha256,
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


def with_amendment(
    manifest: Manifest, directory: ResultsDirectory, earlier: Manifest, study: Study
) -> Manifest:
    """Record what --amend changed in the study, for the readers of the results."""
    from rldyno.study.file import differences, load_study

    if earlier.study_sha256 == study.sha256:
        return manifest
    try:
        changes = differences(load_study(directory.study), study)
    except Problem:
        changes = ["the study, of which the earlier version can no longer be read"]
    return replace(manifest, amended=(*manifest.amended, Amendment(now_iso(), tuple(changes))))


def check_same_study(directory: ResultsDirectory, earlier: Manifest, study: Study) -> None:
    """A Problem that lists the differences when the study has changed since the run began."""
    from rldyno.study.file import differences, load_study

    if earlier.study_sha256 == study.sha256:
        return
    try:
        detail = "\n".join(differences(load_study(directory.study), study))
    except Problem as problem:
        detail = f"the earlier study can no longer be read: {problem.message}"
    raise Problem(
        f"the study has changed since the run in {directory.root} began",
        detail=detail,
        fix="run into a new directory with --out NEW, or continue here with --amend: trials that the "
        "change does not affect are kept",
    )


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
