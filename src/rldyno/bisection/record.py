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
from rldyno.records.seal import read_record, write_record
from rldyno.records.typed import typed

Json = dict[str, Any]

BISECT_FILE = "bisect.json"
ELSEWHERE = "choose another directory with --out, or remove it"


@dataclass(frozen=True)
class Record:
    evidence: Evidence
    host: str
    """The machine: rounds of two machines are not mixed."""

    def to_json(self) -> Json:
        evidence = self.evidence
        return {
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
        if not all(1e-12 < time < 1e9 for one in evidence.rounds for time in (one.old_s, one.new_s)):
            raise ValueError("a time is not that of a process")
        return Record(evidence, raw["host"])


def write(path: Path, evidence: Evidence) -> None:
    write_record(path, Record(evidence, host_sha256()).to_json())


def read(path: Path) -> Record:
    """A Problem when it is damaged."""
    try:
        return typed(path, read_record(path), Record.from_json)
    except Problem as problem:
        raise Problem(problem.message, fix=ELSEWHERE, code=1) from None


def resume(path: Path, question: Question, releases: tuple[str, ...]) -> Evidence:
    """What an earlier search left there, if it asked the same; more rounds may be allowed now."""
    if not path.exists() and not path.is_symlink():
        return Evidence(question, releases, (), {})
    found = read(path)
    known = found.evidence
    if found.host != host_sha256():
        raise Problem(f"{path} was measured on another machine", fix=ELSEWHERE)
    same = replace(known.question, most_rounds=question.most_rounds) == question
    if not same or known.releases != releases:
        raise Problem(f"{path} is a search for something else", fix=ELSEWHERE)
    return replace(known, question=question)
