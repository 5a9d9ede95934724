"""What the frameworks ask of their users, where `rldyno usability` has measured it."""

from __future__ import annotations

from rldyno.report.material import Material
from rldyno.report.section import Section
from rldyno.text.tables import Table
from rldyno.usability import store
from rldyno.usability.tables import all_tables

LONG = ("usability-messages", "usability-notes")


def tables(material: Material) -> list[Table]:
    """None unless the usability of a framework of the study is known: a report measures nothing itself."""
    with store.shown(material.results.directory):
        return all_tables(store.of_results(material.results))


SECTION = Section(
    id="usability",
    order=160,
    title="Usability",
    about="what the frameworks ask of their users",
    tables=tables,
    context=lambda _: {"long": LONG},
)
