"""What a results directory was made from: study, machine, versions; whether a resumed run still matches."""

from __future__ import annotations

import platform
from importlib import metadata
from typing import TYPE_CHECKING

import rldyno
from rldyno.errors import Problem
from rldyno.machine.facts import machine_facts
from rldyno.records.files import Json, Results, now_iso
from rldyno.records.provenance import git_revision
from rldyno_rig.schema import SCHEMA_VERSION

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rldyno.study.file import Study
    from rldyno.study.plan import Plan
    from rldyno.toolchains.resolve import Interpreter

_SAME_MACHINE = ("cpu", "architecture", "cores_logical")
"""Facts that must not change between the parts of one run."""


def _version(name: str) -> str | None:
    """None where a package is missing: running needs fewer than reporting does."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def make_manifest(plan: Plan, interpreters: Mapping[str, Interpreter], earlier: Json | None) -> Json:
    """The manifest of this run; what began earlier keeps the time it began."""
    return {
        "schema": SCHEMA_VERSION,
        "rldyno": rldyno.__version__,
        "git_revision": git_revision(),
        "title": plan.study.title,
        "study_sha256": plan.study.sha256,
        "started_at": earlier["started_at"] if earlier else now_iso(),
        "resumed_at": [*earlier["resumed_at"], now_iso()] if earlier else [],
        "machine": machine_facts(),
        "versions": {
            "python": platform.python_version(),
            **{name: _version(name) for name in ("numpy", "polars")},
        },
        "limits": (earlier or {}).get("limits"),
        "idle_cpu_percent": (earlier or {}).get("idle_cpu_percent"),
        "toolchains": {**(earlier or {}).get("toolchains", {}), **toolchain_facts(interpreters)},
        "left_out": list(plan.study.left_out),
        "amended": (earlier or {}).get("amended", []),
        "adaptive": adaptive_part(plan.study, earlier),
        "trials": [trial.id for trial in plan.trials],
    }


def adaptive_part(study: Study, earlier: Json | None) -> Json | None:
    """The rule for adding seeds, and the looks that were taken by it; None for fixed seeds."""
    if study.adaptive is None:
        return None
    before = (earlier or {}).get("adaptive") or {}
    return {**study.adaptive.model_dump(), "looks": before.get("looks", []), "ended": None}


def toolchain_facts(interpreters: Mapping[str, Interpreter]) -> Json:
    return {
        name: {
            "python": interpreter.python,
            "origin": interpreter.origin,
            "variant": interpreter.variant,
            "versions": interpreter.versions,
        }
        for name, interpreter in interpreters.items()
    }


def note_amendment(manifest: Json, results: Results, earlier: Json, study: Study) -> None:
    """Keep what --amend changed of the study: whoever reads the results should know."""
    from rldyno.study.file import differences, load_study

    if earlier["study_sha256"] == study.sha256:
        return
    try:
        changes = differences(load_study(results.study), study)
    except Problem:
        changes = ["the study, of which the earlier version can no longer be read"]
    manifest["amended"] = [*manifest["amended"], {"at": now_iso(), "changes": changes}]


def check_same_study(results: Results, earlier: Json, study: Study) -> None:
    """A Problem that lists what the study asks for differently since the run began."""
    from rldyno.study.file import differences, load_study

    if earlier["study_sha256"] == study.sha256:
        return
    try:
        detail = "\n".join(differences(load_study(results.study), study))
    except Problem as problem:
        detail = f"the earlier study can no longer be read: {problem.message}"
    raise Problem(
        f"the study has changed since the run in {results.root} began",
        detail=detail,
        fix="keep both with --out NEW, or go on here with --amend: trials the change does not touch are kept",
    )


def check_same_conditions(results: Results, earlier: Json, manifest: Json) -> None:
    """A Problem when half of the trials would come from another machine or from other package versions."""
    before, now = earlier["machine"], manifest["machine"]
    changes = [
        f"machine: {fact} was {before.get(fact)}, is {now.get(fact)}"
        for fact in _SAME_MACHINE
        if before.get(fact) != now.get(fact)
    ]
    for framework, facts in manifest["toolchains"].items():
        old, new = earlier["toolchains"].get(framework, facts)["versions"], facts["versions"]
        changes += [
            f"{framework}: {package} was {old.get(package, 'absent')}, is {new.get(package, 'absent')}"
            for package in sorted(old.keys() | new.keys())
            if old.get(package) != new.get(package)
        ]
    if changes:
        raise Problem(
            f"the conditions have changed since the run in {results.root} began",
            detail="\n".join(changes),
            fix="start afresh with --out NEW, or mix them knowingly with --amend",
        )
