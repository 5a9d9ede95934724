"""Networks alone: the tables of a nets.json in the results directory, stooke2017's numbers beside ours."""

from __future__ import annotations

from typing import Any

from rldyno.nets import tables as nets_tables
from rldyno.nets.figures import figures
from rldyno.nets.remarks import remarks
from rldyno.report.material import Material
from rldyno.report.section import Section
from rldyno.text.tables import Table


def tables(material: Material) -> list[Table]:
    """None where networks were not timed: `rldyno nets -o DIR` does."""
    record = material.networks
    if record is None:
        return []
    found = figures(record)
    rest = nets_tables.kinds_beside_paper(record, found)
    return [
        *nets_tables.paper_tables(record, found),
        *([nets_tables.call_table(record, rest)] if rest else []),
    ]


def context(material: Material) -> dict[str, Any]:
    record = material.networks
    return {"remarks": [] if record is None else [line.rstrip(".") for line in remarks(record)]}


SECTION = Section(
    id="nets",
    order=130,
    title="Networks alone",
    about="one inference and one training step, timed alone, beside the numbers of stooke2017",
    short="Networks",
    tables=tables,
    context=context,
)
