"""Networks alone: the tables of a nets.json that lies in the results directory, stooke2017's among them."""

from __future__ import annotations

from rldyno.nets import tables
from rldyno.nets.figures import figures
from rldyno.nets.record import read_record
from rldyno.nets.remarks import remarks
from rldyno.results.load import Results
from rldyno.text.tables import Table


def nets_tables(results: Results) -> tuple[Table, ...]:
    """Empty where networks were not timed: `rldyno nets -o DIR` does."""
    record = read_record(results.directory)
    if record is None:
        return ()
    found = figures(record)
    rest = tables.kinds_beside_paper(record, found)
    return (*tables.paper_tables(record, found), *([tables.call_table(record, rest)] if rest else []))


def nets_remarks(results: Results) -> list[str]:
    record = read_record(results.directory)
    return [] if record is None else [line.rstrip(".") for line in remarks(record)]
