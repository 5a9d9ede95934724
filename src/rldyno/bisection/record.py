"""bisect.json: the question, the releases, and every round; from it a search goes on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from rldyno.bisection.question import Question
from rldyno.bisection.search import Evidence, Round
from rldyno.errors import Problem
from rldyno.machine.facts import host_sha256
from rldyno.records.files import read_json, write_json

Json = dict[str, Any]

BISECT_FILE = "bisect.json"
SCHEMA = 1


@dataclass(frozen=True)
class Record:
    evidence: Evidence
    host: str
    """The machine: rounds of two machines are not mixed."""

    def to_json(self) -> Json:
        evidence = self.evidence
        return {
            "schema": SCHEMA,
            "host": self.host,
            "question": evidence.question.to_json(),
            "releases": list(evidence.releases),
            "skipped": dict(evidence.skipped or {}),
            "rounds": [asdict(one) for one in evidence.rounds],
        }

    @staticmethod
    def from_json(raw: Mapping[str, Any]) -> Record:
        evidence = Evidence(
            Question.from_json(raw["question"]),
            tuple(raw["releases"]),
            tuple(Round(one["old"], one["new"], one["old_s"], one["new_s"]) for one in raw["rounds"]),
            dict(raw["skipped"]),
        )
        return Record(evidence, raw["host"])


def write(path: Path, evidence: Evidence) -> None:
    write_json(path, Record(evidence, host_sha256()).to_json())


def resume(path: Path, question: Question, releases: tuple[str, ...]) -> Evidence:
    """What an earlier search left there, if it asked the same; more rounds may be allowed now."""
    if not path.exists():
        return Evidence(question, releases, (), {})
    elsewhere = "choose another directory with --out, or remove it"
    try:
        found = Record.from_json(read_json(path))
    except (ValueError, KeyError, TypeError) as error:
        raise Problem(f"{path} is damaged: {error}", fix=elsewhere, code=1) from None
    known = found.evidence
    if found.host != host_sha256():
        raise Problem(f"{path} was measured on another machine", fix=elsewhere)
    same = replace(known.question, most_rounds=question.most_rounds) == question
    if not same or known.releases != releases:
        raise Problem(f"{path} is a search for something else", fix=elsewhere)
    return replace(known, question=question)
