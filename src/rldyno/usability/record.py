"""What was measured of frameworks, as `rldyno usability` keeps it in JSON files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from rldyno.records.machine_facts import MachineFacts

Json = dict[str, Any]
Part = Mapping[str, Any]
"""Name → value of one part (install, start, code, …). `error` is why it could not be measured, else None."""
SCHEMA = 1


@dataclass(frozen=True)
class UsabilityRecord:
    """One framework in one toolchain."""

    framework: str
    title: str
    python: str
    versions: Mapping[str, str]
    measured_at: str
    parts: Mapping[str, Part] = field(default_factory=dict)

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> UsabilityRecord:
        return UsabilityRecord(
            values["framework"],
            values["title"],
            values["python"],
            values["versions"],
            values["measured_at"],
            values["parts"],
        )

    def to_json(self) -> Json:
        return {
            "schema": SCHEMA,
            "framework": self.framework,
            "title": self.title,
            "python": self.python,
            "versions": dict(self.versions),
            "measured_at": self.measured_at,
            "parts": dict(self.parts),
        }

    def part(self, name: str) -> Part:
        """Empty where it was not measured, or failed."""
        found = self.parts.get(name, {})
        return {} if found.get("error") else found

    def with_part(self, name: str, part: Part, measured_at: str) -> UsabilityRecord:
        return replace(self, parts={**self.parts, name: part}, measured_at=measured_at)

    def only(self, parts: Iterable[str]) -> UsabilityRecord:
        return replace(self, parts={name: self.parts[name] for name in parts})


@dataclass(frozen=True)
class Absent:
    """A framework that was not measured."""

    reason: str
    fix: str | None


@dataclass(frozen=True)
class UsabilityFile:
    """The content of usability.json."""

    made_at: str
    machine: MachineFacts
    frameworks: Mapping[str, UsabilityRecord]
    absent: Mapping[str, Absent] = field(default_factory=dict)

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> UsabilityFile:
        return UsabilityFile(
            values.get("made_at", ""),
            MachineFacts.from_json(values.get("machine") or {}),
            {name: UsabilityRecord.from_json(found) for name, found in values["frameworks"].items()},
            {name: Absent(**found) for name, found in values.get("absent", {}).items()},
        )

    def to_json(self) -> Json:
        return {
            "schema": SCHEMA,
            "made_at": self.made_at,
            "machine": self.machine.to_json(),
            "frameworks": {name: found.to_json() for name, found in self.frameworks.items()},
            "absent": {name: {"reason": why.reason, "fix": why.fix} for name, why in self.absent.items()},
        }
