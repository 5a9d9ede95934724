"""A manifest that was damaged or lost is made again from the study's copy and the trials."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from rldyno.errors import Problem
from rldyno.machine.facts import host_sha256
from rldyno.records.directory import ResultsDirectory, run_command, working_in
from rldyno.records.files import now_iso, read_bytes
from rldyno.records.machine_facts import MachineFacts
from rldyno.records.manifest import Manifest
from rldyno.records.trial_records import read_trial_records
from rldyno.session.manifest import make_manifest
from rldyno.studies.given import GivenStudy
from rldyno.study.plan import make_plan
from rldyno.study.recorded import check_recorded

ASIDE = "manifest.damaged.json"


def rebuild_manifest(root: Path) -> str:
    """Write it, and keep the damaged one; a sentence that says what was done.

    Nothing is invented: what only the old manifest had (limits, amendments, interim checks, toolchains) is
    lost, and the manifest says when it was rebuilt.
    """
    directory = ResultsDirectory(root)
    if not directory.study.is_file() or not directory.trials.is_dir():
        raise Problem(
            f"{root} has no study.toml or no trials: its manifest cannot be rebuilt",
            fix="run the study again into a new directory",
            code=1,
        )
    text = read_bytes(directory.study).decode(errors="replace")
    study = check_recorded(directory.study, text)
    plan = make_plan(study)
    there = [trial for trial in plan.trials if directory.trial(trial.id).is_dir()]
    given = GivenStudy(study, text, "", root.resolve().name)
    with working_in(directory, lost_manifest=True):
        rebuilt = replace(
            make_manifest(replace(plan, trials=tuple(there)), given, {}, None), rebuilt_at=now_iso()
        )
        if not _ran_here(directory, rebuilt):
            rebuilt = replace(rebuilt, machine=MachineFacts())
        if directory.manifest.exists():
            directory.manifest.replace(directory.manifest.with_name(ASIDE))
        directory.write_manifest(rebuilt)
    return f"rebuilt the manifest from {len(there)} trials; to run what is missing: {run_command(root)}"


def _ran_here(directory: ResultsDirectory, manifest: Manifest) -> bool:
    """Whether this machine, whose facts are known, ran the trials."""
    hosts = set()
    for trial in manifest.trials:
        outcome = read_trial_records(directory.trial(trial)).outcome
        if outcome is not None and outcome.noise is not None:
            hosts.add(outcome.noise.host)
    return hosts <= {host_sha256()}
