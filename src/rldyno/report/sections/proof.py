"""How closely contestants compute what the reference computes, and where their actions first differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rldyno.answers import learning
from rldyno.answers.groups import CERTIFICATE_WORDS, Group
from rldyno.answers.learning import Divergence
from rldyno.proofs.certificate import Certificate, Code, Validity
from rldyno.report.material import Material
from rldyno.report.section import Section, slug
from rldyno.results.load import Results
from rldyno.text.tables import Table
from rldyno_rig.algorithms import title_of
from rldyno_rig.facts_file import WorkerFacts
from rldyno_rig.proof.rung import Rung

REFERENCE = "numpy:eager"
GROUPS_TRACED = 50


@dataclass(frozen=True)
class RungRow:
    contestant: str
    state: str
    words: str
    detail: str | None
    rungs: dict[str, Rung]


@dataclass(frozen=True)
class RungTable:
    """Contestants × rungs of one algorithm, network, device and floating-point type."""

    label: str
    rungs: tuple[str, ...]
    rows: tuple[RungRow, ...]


@dataclass(frozen=True)
class ProofSummary:
    """Contestants × algorithms: the worst error of all rungs that have a limit."""

    columns: tuple[str, ...]
    rows: dict[str, dict[str, tuple[str, str]]]
    """Contestant → column → (state of the certificate, `3e-15 / 2e-07`: float64 / float32)."""


def rung_tables(results: Results) -> list[RungTable]:
    """Certificates as tables; the worst error where a contestant has several."""
    tables: dict[tuple[str, str, str, str], dict[str, RungRow]] = {}
    for certificate in results.certificates:
        # A proof that ended before its first rung has a row all the same.
        subject = certificate.subject
        for dtype in dict.fromkeys(rung.dtype for rung in certificate.rungs) or ("float64",):
            key = (subject.algorithm, subject.form, subject.device, dtype)
            row = rung_row(certificate, results.facts.get(certificate.contestant), dtype)
            tables.setdefault(key, {})[certificate.contestant] = row
    return [
        RungTable(
            label=f"{title_of(algorithm)}, {form}, {device}, {dtype}",
            rungs=tuple(dict.fromkeys(name for row in rows.values() for name in row.rungs)),
            rows=tuple(rows.values()),
        )
        for (algorithm, form, device, dtype), rows in tables.items()
    ]


def proof_summary(results: Results) -> ProofSummary:
    rows: dict[str, dict[str, tuple[str, str]]] = {}
    for certificate in results.certificates:
        subject = certificate.subject
        state = validity(certificate, results.facts.get(certificate.contestant)).state
        errors = [certificate.worst(dtype) for dtype in ("float64", "float32")]
        words = " / ".join(
            "–" if error is None else "0" if error == 0 else f"{error:.0e}" for error in errors
        )
        column = f"{title_of(subject.algorithm)}, {subject.form}, {subject.device}"
        rows.setdefault(certificate.contestant, {})[column] = (state, words)
    columns = dict.fromkeys(column for cells in rows.values() for column in cells)
    return ProofSummary(tuple(columns), rows)


def validity(certificate: Certificate, facts: WorkerFacts | None) -> Validity:
    return certificate.validity(None if facts is None else Code.of(facts))


def rung_row(certificate: Certificate, facts: WorkerFacts | None, dtype: str) -> RungRow:
    state, detail = validity(certificate, facts)
    worst: dict[str, Rung] = {}
    for rung in certificate.rungs:
        if rung.dtype == dtype and (rung.name not in worst or rung.error > worst[rung.name].error):
            worst[rung.name] = rung
    return RungRow(certificate.contestant, state, CERTIFICATE_WORDS[state], detail, worst)


def divergences(results: Results, groups: Sequence[Group]) -> list[tuple[str, Divergence]]:
    """(comparison, where a contestant's actions first differ from the reference's), for the first groups.

    A big study repeats the same few.
    """
    return [
        (group.label, found)
        for group in groups[:GROUPS_TRACED]
        if (reference := reference_of(group)) is not None
        for found in learning.divergences(results, group.trials, reference)
    ]


def reference_of(group: Group) -> str | None:
    ran = [row.contestant for row in group.rows if row.done]
    return REFERENCE if REFERENCE in ran else next(iter(ran), None)


def unproven(results: Results, groups: Sequence[Group]) -> list[str]:
    """Contestants that ran without any certificate."""
    ran = dict.fromkeys(
        row.contestant for group in groups for row in group.rows if row.done and not row.guest
    )
    known = {certificate.contestant for certificate in results.certificates}
    return [contestant for contestant in ran if contestant not in known]


def context(material: Material) -> dict[str, Any]:
    results, groups = material.results, material.groups
    return {
        "summary": proof_summary(results),
        "rungs": rung_tables(results),
        "unproven": unproven(results, groups),
        "divergences": divergences(results, groups),
    }


def tables(material: Material) -> list[Table]:
    found = [
        Table(
            name=f"proof--{slug(item.label)}",
            title=f"Worst relative error per rung: {item.label}",
            columns=("Contestant", "Certificate", *item.rungs),
            rows=tuple(
                (
                    row.contestant,
                    row.words,
                    *(f"{row.rungs[rung].error:.1e}" if rung in row.rungs else "–" for rung in item.rungs),
                )
                for row in item.rows
            ),
        )
        for item in rung_tables(material.results)
    ]
    differing = divergences(material.results, material.groups)
    if not differing:
        return found
    rows = tuple((label, item.contestant, item.words.replace("`", "")) for label, item in differing)
    title = "First action that differs, with the same seed"
    return [*found, Table("divergence", title, ("Comparison", "Contestant", "Finding"), rows)]


SECTION = Section(
    id="proof",
    order=140,
    title="Proof of equal computation",
    about="the worst error of every contestant on every rung of the proof",
    short="Proof",
    tables=tables,
    context=context,
    shown=lambda _: True,
)
