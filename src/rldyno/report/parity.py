"""How closely contestants compute what the reference computes, and where their actions part ways."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from rldyno import records
from rldyno.answers.table import ALGORITHM_NAMES, CERTIFICATE_WORDS, Group
from rldyno.records import Json
from rldyno.results import Certificate, Results, judged
from rldyno_rig import schema

REFERENCE = "numpy:eager"


@dataclass(frozen=True)
class Rung:
    name: str
    error: float
    tolerance: float | None
    passed: bool


@dataclass(frozen=True)
class ParityRow:
    contestant: str
    state: str
    words: str
    detail: str | None
    rungs: dict[str, Rung]


@dataclass(frozen=True)
class ParityTable:
    """Contestants × rungs of one algorithm, network, device and floating-point type."""

    label: str
    rungs: tuple[str, ...]
    rows: tuple[ParityRow, ...]


@dataclass(frozen=True)
class ParitySummary:
    """Contestants × algorithms: the worst judged error of all rungs."""

    columns: tuple[str, ...]
    rows: dict[str, dict[str, tuple[str, str]]]
    """contestant → column → (state of the certificate, `3e-15 / 2e-07`: float64 / float32)."""


@dataclass(frozen=True)
class Divergence:
    """Where a contestant first acted otherwise than `against` did with the same seed."""

    contestant: str
    against: str
    label: str
    steps: tuple[int | None, ...]
    """Per seed the first step with another action, from 1; None when all traced actions are the same."""
    traced: int

    @property
    def words(self) -> str:
        parted = sorted(step for step in self.steps if step is not None)
        seeds = f"{len(self.steps)} seed{'s' if len(self.steps) > 1 else ''}"
        if not parted:
            return f"the same for all {self.traced:,} traced actions, {seeds}"
        first = f"step {parted[0]:,}" if len(parted) == 1 else f"steps {parted[0]:,} to {parted[-1]:,}"
        same = len(self.steps) - len(parted)
        return f"{first}" + (f"; the same throughout in {same} of {seeds}" if same else f", {seeds}")


def parity_tables(results: Results) -> list[ParityTable]:
    """Certificates as tables; the worst error where a contestant has several."""
    tables: dict[tuple[str, str, str, str], dict[str, ParityRow]] = {}
    for certificate in results.certificates:
        # A proof that ended before its first rung has a row all the same.
        for dtype in dict.fromkeys(rung.get("dtype", "") for rung in certificate.rungs) or ("float64",):
            key = (certificate.algorithm, certificate.network, certificate.device, dtype)
            row = parity_row(certificate, results.facts.get(certificate.contestant), dtype)
            tables.setdefault(key, {})[certificate.contestant] = row
    return [
        ParityTable(
            label=f"{ALGORITHM_NAMES.get(algorithm, algorithm)}, {network}, {device}, {dtype}",
            rungs=tuple(dict.fromkeys(name for row in rows.values() for name in row.rungs)),
            rows=tuple(sorted(rows.values(), key=lambda row: row.contestant)),
        )
        for (algorithm, network, device, dtype), rows in sorted(tables.items())
    ]


def parity_summary(results: Results) -> ParitySummary:
    rows: dict[str, dict[str, tuple[str, str]]] = {}
    for certificate in sorted(results.certificates, key=lambda item: item.key):
        name = ALGORITHM_NAMES.get(certificate.algorithm, certificate.algorithm)
        state, _ = judged(certificate, results.facts.get(certificate.contestant))
        errors = [worst_error(certificate, dtype) for dtype in ("float64", "float32")]
        words = " / ".join(
            "–" if error is None else "0" if error == 0 else f"{error:.0e}" for error in errors
        )
        column = f"{name}, {certificate.network}, {certificate.device}"
        rows.setdefault(certificate.contestant, {})[column] = (state, words)
    columns = dict.fromkeys(column for cells in rows.values() for column in cells)
    return ParitySummary(tuple(sorted(columns)), rows)


def worst_error(certificate: Certificate, dtype: str) -> float | None:
    errors = [
        rung["error"]
        for rung in certificate.rungs
        if rung.get("dtype") == dtype and rung.get("tolerance") is not None and rung.get("error") is not None
    ]
    return max(errors, default=None)


def parity_row(certificate: Certificate, facts: Json | None, dtype: str) -> ParityRow:
    state, detail = judged(certificate, facts)
    worst: dict[str, Rung] = {}
    for rung in certificate.rungs:
        if rung.get("dtype") != dtype:
            continue
        made = Rung(
            rung.get("rung", "?"), rung.get("error") or 0.0, rung.get("tolerance"), bool(rung.get("passed"))
        )
        if made.name not in worst or made.error > worst[made.name].error:
            worst[made.name] = made
    return ParityRow(certificate.contestant, state, CERTIFICATE_WORDS[state], detail, worst)


def divergences(results: Results, groups: Sequence[Group], limit: int = 200) -> list[Divergence]:
    """Of every contestant from NumPy, or from the first contestant where NumPy did not run.

    At most `limit` comparisons, one group after the other: a big study repeats the same few.
    """
    found: list[Divergence] = []
    for group in groups:
        traces = group_traces(results, group)
        base = REFERENCE if REFERENCE in traces else next(iter(traces), None)
        if base is None:
            continue
        for contestant, by_seed in traces.items():
            seeds = [seed for seed in by_seed if seed in traces[base]]
            if contestant == base or not seeds:
                continue
            pairs = [(traces[base][seed], by_seed[seed]) for seed in seeds]
            steps = tuple(first_difference(right, mine) for right, mine in pairs)
            traced = min(min(len(right), len(mine)) for right, mine in pairs)
            found.append(Divergence(contestant, base, group.label, steps, traced))
        if len(found) >= limit:
            break
    return found


def group_traces(results: Results, group: Group) -> dict[str, dict[int, list[str]]]:
    home = records.Results(results.directory)
    traces: dict[str, dict[int, list[str]]] = {}
    done = group.trials.filter(pl.col("status") == "done").select("contestant", "seed", "trial")
    for contestant, seed, trial in done.iter_rows():
        actions = read_actions(home.trial(trial) / schema.ACTIONS_FILE)
        if actions:
            traces.setdefault(contestant, {})[seed] = actions
    return traces


def read_actions(path: Path) -> list[str]:
    try:
        return records.complete_lines(path.read_bytes()).decode(errors="replace").split()
    except OSError:
        return []


def first_difference(right: Iterable[str], mine: Iterable[str]) -> int | None:
    """Counted from 1, over the length of the shorter one."""
    pairs = enumerate(zip(right, mine, strict=False), 1)
    return next((step for step, (a, b) in pairs if a != b), None)


def unproven(results: Results, groups: Sequence[Group]) -> list[str]:
    """Contestants that ran without any certificate."""
    ran = dict.fromkeys(row.contestant for group in groups for row in group.rows if row.done)
    known = {certificate.contestant for certificate in results.certificates}
    return [contestant for contestant in ran if contestant not in known]
