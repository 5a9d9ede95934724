"""What the frameworks ask of their users, where `rldyno usability` has measured it."""

from __future__ import annotations

from rldyno.report.material import Material
from rldyno.report.section import Section
from rldyno.text.tables import Table
from rldyno.usability import store
from rldyno.usability.tables import all_tables
from rldyno_rig.contestant import Contestant

LONG = ("usability-messages", "usability-notes")


def tables(material: Material) -> list[Table]:
    """None unless the usability of a framework of the study is known: a report measures nothing itself."""
    versions: dict[str, dict[str, str]] = {}
    for contestant, sets in material.results.versions.items():
        versions.setdefault(Contestant.parse(contestant).framework, {}).update(sets[0])
    return all_tables(store.known(material.results.directory, versions))


SECTION = Section(
    id="usability",
    order=160,
    title="Usability",
    about="what the frameworks ask of their users",
    tables=tables,
    context=lambda _: {"long": LONG},
)
