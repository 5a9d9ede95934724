"""The search: measure what the evidence asks for next, keep it, until there is an answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from rldyno.bisection import record
from rldyno.bisection.measuring import Measurer, SkippedError
from rldyno.bisection.search import Comparison, Evidence, Finding, compare, next_pair
from rldyno.errors import Problem
from rldyno.records.locks import LockedError, locked

OnRound = Callable[[Comparison], None]
OnSkip = Callable[[str, str], None]


def search(
    evidence: Evidence, measurer: Measurer, path: Path, on_round: OnRound, on_skip: OnSkip
) -> tuple[Evidence, Finding]:
    """Every round is kept in `path` as soon as it is measured."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with locked(path.with_suffix(".lock")):
            return _search(evidence, measurer, path, on_round, on_skip)
    except LockedError as busy:
        raise Problem(
            f"another process ({busy}) searches in {path.parent}", fix="wait for it", code=1
        ) from None


def _search(
    evidence: Evidence, measurer: Measurer, path: Path, on_round: OnRound, on_skip: OnSkip
) -> tuple[Evidence, Finding]:
    record.write(path, evidence)
    while not isinstance(pair := next_pair(evidence), Finding):
        try:
            made = measurer.round(*pair, len(evidence.rounds))
        except SkippedError as skipped:
            known = {**(evidence.skipped or {}), skipped.release: skipped.reason}
            evidence = replace(evidence, skipped=known)
            on_skip(skipped.release, skipped.reason)
        else:
            evidence = replace(evidence, rounds=(*evidence.rounds, made))
            on_round(compare(evidence, pair))
        record.write(path, evidence)
    return evidence, pair
