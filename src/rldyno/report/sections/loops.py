"""The open division: whole loops of an open.json in the results directory, beside the closed trials."""

from __future__ import annotations

from typing import Any

from rldyno.answers.open_beside import Beside, beside, beside_table, sentences
from rldyno.report.material import Material
from rldyno.report.section import Section
from rldyno.text.tables import Table


def found_in(material: Material) -> list[Beside]:
    """None where no open loop was measured: `rldyno open -o DIR` does."""
    record = material.open_loops
    return [] if record is None else beside(material.results, material.groups, record)


def tables(material: Material) -> list[Table]:
    record = material.open_loops
    return [] if record is None else [beside_table(record, found_in(material))]


def context(material: Material) -> dict[str, Any]:
    return {"sentences": sentences(found_in(material))}


SECTION = Section(
    id="loops",
    order=125,
    title="The open division",
    about="whole training loops of one framework, environment included, beside the closed loop",
    short="Open division",
    tables=tables,
    context=context,
)
