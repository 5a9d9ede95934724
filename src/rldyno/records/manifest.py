"""manifest.json: what a results directory was made from, and the trials of its plan in their order.

Unknown keys, of newer versions, are ignored. Missing keys, of older versions, get their defaults.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from rldyno.records.files import Json
from rldyno.records.interim import GroupFinding
from rldyno.records.machine_facts import MachineFacts
from rldyno.records.machine_limits import StudyLimits
from rldyno_rig.schema import SCHEMA_VERSION


@dataclass(frozen=True)
class ToolchainFacts:
    """The interpreter that ran a framework's trials."""

    python: str
    """Its version."""
    origin: str
    """`built` by rldyno or `given` by the user."""
    variant: str | None
    """`cpu` or `cuda` of a built one."""
    versions: Mapping[str, str]
    """Package → version."""

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> ToolchainFacts:
        return ToolchainFacts(
            values.get("python", ""),
            values.get("origin", ""),
            values.get("variant"),
            values.get("versions") or {},
        )

    def to_json(self) -> Json:
        return {
            "python": self.python,
            "origin": self.origin,
            "variant": self.variant,
            "versions": dict(self.versions),
        }


@dataclass(frozen=True)
class Task:
    """An algorithm on an environment."""

    algorithm: str
    environment: str

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> Task:
        return Task(values["algorithm"], values["environment"])

    def to_json(self) -> Json:
        return {"algorithm": self.algorithm, "environment": self.environment}


@dataclass(frozen=True)
class Amendment:
    """A change of the study after its run had begun, accepted with --amend or made with --seeds."""

    at: str
    changes: tuple[str, ...]
    """One line for each key: `seeds: 3 → 5`."""
    text_before: str = ""
    """The study until then. What it became is in the next amendment, or in the manifest."""
    trials_ended: int | None = None
    """How many trials had ended: their results could be seen. None in older records."""

    @property
    def after_results(self) -> bool:
        return self.trials_ended != 0

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> Amendment:
        return Amendment(
            values["at"],
            tuple(values["changes"]),
            values.get("text_before") or "",
            values.get("trials_ended"),
        )

    def to_json(self) -> Json:
        return {
            "at": self.at,
            "changes": list(self.changes),
            "text_before": self.text_before,
            "trials_ended": self.trials_ended,
        }


@dataclass(frozen=True)
class InterimCheck:
    """The state of the comparisons at one moment of a run with adaptive seeds."""

    at: str
    added: int
    """Trials that were added because of it."""
    groups: tuple[GroupFinding, ...]
    """Those that changed since the check before."""

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> InterimCheck:
        return InterimCheck(
            values["at"], values["added"], tuple(map(GroupFinding.from_json, values["groups"]))
        )

    def to_json(self) -> Json:
        return {"at": self.at, "added": self.added, "groups": [group.to_json() for group in self.groups]}


@dataclass(frozen=True)
class AdaptiveSeeds:
    """The rule by which seeds are added, and the interim checks made so far."""

    min: int
    max: int
    until: str
    """`resolved` or `winner`."""
    within: float
    """Contestants whose ratio is shown to be below 1 + this are equal."""
    checks: tuple[InterimCheck, ...] = ()
    ended: str | None = None
    """Why no more seeds are added; None while they may be."""

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> AdaptiveSeeds:
        return AdaptiveSeeds(
            min=values["min"],
            max=values["max"],
            until=values["until"],
            within=values["within"],
            checks=tuple(map(InterimCheck.from_json, values.get("looks") or ())),
            ended=values.get("ended"),
        )

    def to_json(self) -> Json:
        return {
            "min": self.min,
            "max": self.max,
            "until": self.until,
            "within": self.within,
            "looks": [check.to_json() for check in self.checks],
            "ended": self.ended,
        }


@dataclass(frozen=True)
class Manifest:
    """The content of manifest.json."""

    rldyno: str = ""
    """Version of rldyno."""
    git_revision: str | None = None
    title: str = ""
    study_sha256: str = ""
    study_text: str = ""
    """The study file, with the seeds of --seeds. Empty in older records: `study.toml` is all they have."""
    study_path: str = ""
    """Where the study came from: the name or path that the user typed."""
    started_at: str = ""
    resumed_at: tuple[str, ...] = ()
    rebuilt_at: str | None = None
    """When `rldyno check --repair` made it again from the trials; then much of the beginning is unknown."""
    machine: MachineFacts = field(default_factory=MachineFacts)
    """The machine that began the run."""
    versions: Mapping[str, str | None] = field(default_factory=dict)
    """Of Python and packages of the lab."""
    limits: StudyLimits | None = None
    """What this machine can do at best; None when it was not measured."""
    idle_cpu_percent: float | None = None
    """CPU use of the machine before the first trial."""
    toolchains: Mapping[str, ToolchainFacts] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    """Combinations of the study that cannot run, each with its reason."""
    untuned: tuple[Task, ...] = ()
    """Tasks that run with generic hyper-parameters: the algorithm was not tuned for the environment."""
    amended: tuple[Amendment, ...] = ()
    adaptive: AdaptiveSeeds | None = None
    """None for a study with fixed seeds."""
    trials: tuple[str, ...] = ()
    """Ids in the order of the plan."""

    @property
    def host(self) -> str | None:
        """The machine that began the run, as a hash."""
        return self.machine.host_sha256

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> Manifest:
        known = {name: values[name] for name in _FIELDS if values.get(name) is not None}
        for name in ("resumed_at", "left_out", "trials"):
            known[name] = tuple(values.get(name) or ())
        toolchains = values.get("toolchains") or {}
        known["toolchains"] = {name: ToolchainFacts.from_json(facts) for name, facts in toolchains.items()}
        known["untuned"] = tuple(map(Task.from_json, values.get("untuned") or ()))
        known["amended"] = tuple(map(Amendment.from_json, values.get("amended") or ()))
        known["machine"] = MachineFacts.from_json(values.get("machine") or {})
        limits = values.get("limits")
        known["limits"] = StudyLimits.from_json(limits) if limits else None
        adaptive = values.get("adaptive")
        known["adaptive"] = AdaptiveSeeds.from_json(adaptive) if adaptive else None
        return Manifest(**known)

    def to_json(self) -> Json:
        written: Json = {"schema": SCHEMA_VERSION}
        written |= {name: getattr(self, name) for name in _FIELDS}
        return written | {
            "resumed_at": list(self.resumed_at),
            "machine": self.machine.to_json(),
            "limits": self.limits.to_json() if self.limits else None,
            "toolchains": {name: facts.to_json() for name, facts in self.toolchains.items()},
            "left_out": list(self.left_out),
            "untuned": [task.to_json() for task in self.untuned],
            "amended": [amendment.to_json() for amendment in self.amended],
            "adaptive": self.adaptive.to_json() if self.adaptive else None,
            "trials": list(self.trials),
        }


_FIELDS = tuple(entry.name for entry in fields(Manifest))
