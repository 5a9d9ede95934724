"""What the papers claim, and what these results say about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rldyno.claims.decide import judge
from rldyno.claims.evidence import beside_trials, gather
from rldyno.claims.form import shipped_claims
from rldyno.claims.show import decidable_first, lines
from rldyno.report.material import Material
from rldyno.report.section import Section
from rldyno.text.tables import Table


@dataclass(frozen=True)
class ClaimView:
    id: str
    statement: str
    verdict: str
    reasons: tuple[str, ...]


def views(material: Material) -> list[ClaimView]:
    """The shipped claims, decided ones first."""
    evidence = gather([material.results], *beside_trials(material.results.directory))
    return [
        ClaimView(item.claim.id, item.claim.statement, item.verdict, tuple(lines(item)))
        for item in decidable_first(judge(shipped_claims(), evidence))
    ]


def context(material: Material) -> dict[str, Any]:
    found = views(material)
    return {
        "decided": [view for view in found if view.verdict != "undecided"],
        "undecided": [view for view in found if view.verdict == "undecided"],
        "count": lambda verdict: sum(view.verdict == verdict for view in found),
    }


def tables(material: Material) -> list[Table]:
    return [
        Table(
            name="claims",
            title="Claims of the papers, checked against these results",
            columns=("Claim", "Verdict", "Statement", "Why"),
            rows=tuple(
                (view.id, view.verdict, view.statement, "; ".join(view.reasons) or "–")
                for view in views(material)
            ),
        )
    ]


SECTION = Section(
    id="claims",
    order=150,
    title="Claims",
    about="what the papers claim: holds, refuted or undecided",
    tables=tables,
    context=context,
    shown=lambda _: True,
)
