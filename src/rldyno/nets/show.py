"""Print a record and write its tables beside it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from rldyno import records
from rldyno.errors import Problem
from rldyno.limits.disturbance import is_busy, warnings
from rldyno.nets import tables
from rldyno.nets.figures import figures
from rldyno.nets.record import read_record
from rldyno.nets.utilisation import SHORTEST_S
from rldyno.nets.work import NETS_FILE
from rldyno.typeset import Table, comma_separated, is_figure, latex, markdown

if TYPE_CHECKING:
    from rich.console import Console

Json = dict[str, Any]


def read(directory: Path) -> Json:
    record = read_record(directory)
    if record is None:
        raise Problem(f"{directory} holds no {NETS_FILE}", fix="measure first: rldyno nets -o DIR")
    return record


def show(directory: Path, console: Console) -> None:
    """The tables on the console; Markdown, LaTeX and CSV in the directory."""
    record = read(directory)
    found = figures(record)
    everything = tables.call_table(record, found)
    ours_beside_paper = tables.paper_tables(record, found)
    rest = tables.kinds_beside_paper(record, found)
    shown = [*ours_beside_paper, *([tables.call_table(record, rest)] if rest else [])]
    for table in shown:
        print_table(table, console)
    if ours_beside_paper:
        console.print("Rows of 2017 are stooke2017's, copies included.")
    for line in remarks(record):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    written = [*ours_beside_paper, everything]
    for suffix, typeset in (("md", markdown), ("tex", latex)):
        text = "\n".join(typeset(table) for table in written)
        records.write_atomically(directory / f"nets.{suffix}", text)
    for table in (*ours_beside_paper, tables.data_table(found)):
        records.write_atomically(directory / f"{table.name}.csv", comma_separated(table))


def remarks(record: Json) -> list[str]:
    """What a reader must know beside the figures."""
    lines = [
        "To fastest: ratio of the same round and its 95 % bootstrap interval over rounds. "
        "To limit: multiple of the floor that arithmetic and bandwidth of this machine set.",
        *tables.errors(record),
    ]
    for absent in record["absent"]:
        on = f" on {absent['net']}" if absent["net"] else ""
        lines.append(f"Absent: {absent['contestant']}{on}: {absent['reason']}")
    unproven = sorted({w["contestant"] for w in record["workers"] if w["certificate"] != "valid"})
    if unproven:
        lines.append(f"Not proven here to compute the same: {', '.join(unproven)} (rldyno verify)")
    if record["gpu_percent_reason"] and record["asked"]["device"] != "cpu":
        lines.append(f"GPU utilisation was not measured: {record['gpu_percent_reason']}")
    elif record["asked"]["device"] != "cpu" and record["asked"]["seconds"] < SHORTEST_S:
        lines.append(f"GPU utilisation is a mean over a second: give --seconds {SHORTEST_S:g} or more.")
    lines += busy_rounds(record)
    lines += [
        f"{line}. When the machine is quiet, a new measurement measures them again"
        for line in warnings([record["limits"]] if record["limits"] else [])
    ]
    if not record["complete"]:
        lines.append("Interrupted: these are the rounds that were finished.")
    return lines


def busy_rounds(record: Json) -> list[str]:
    """Whether others worked on the CPUs that were measured. Older records do not tell."""
    rounds = record.get("disturbed") or []
    busy = [one["taken_percent"] for one in rounds if is_busy(one)]
    if not busy:
        return []
    return [
        f"The machine was busy in {len(busy)} of {len(rounds)} rounds: others used up to {max(busy):.0f} % "
        "of these CPUs. Times may be too long, ratios less so; measure again when it is quiet."
    ]


def print_table(table: Table, console: Console) -> None:
    from rich import box
    from rich.table import Table as Shown

    shown = Shown(title=table.title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for index, column in enumerate(table.columns):
        figure = is_figure(table, index)
        shown.add_column(column, justify="right" if figure else "left", overflow="fold")
    for row in table.rows:
        shown.add_row(*row)
    console.print(shown)
