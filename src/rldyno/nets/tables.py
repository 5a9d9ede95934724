"""The figures as tables: stooke2017's beside ours, and every kind of call with its ratio and its limit."""

from __future__ import annotations

import tomllib
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from rldyno.nets.figures import NetFigure
from rldyno.nets.record import NetsRecord
from rldyno.nets.work import ACT, CLASSIFIER, PAGEABLE, PAPER_CALLS, PAPER_ROWS, PINNED, UPDATE
from rldyno.stats.estimates import Estimate
from rldyno.text.numbers import factor, number, span
from rldyno.text.tables import Table

NONE = "–"
COMPARED = ("To fastest", "To limit", "GPU, %")
PAPER = tomllib.loads((Path(__file__).parent / "stooke2017.toml").read_text(encoding="utf-8"))


def paper_tables(record: NetsRecord, found: Sequence[NetFigure]) -> list[Table]:
    """Per network of the paper: seconds for its work, ours by copies and contestant, then the paper's."""
    if record.benchmark.algorithm != CLASSIFIER:
        return []
    of_net: dict[str, dict[tuple[str, str], dict[str, NetFigure]]] = defaultdict(lambda: defaultdict(dict))
    for figure in found:
        if figure.kind.is_papers:
            of_net[figure.kind.net][figure.kind.data, figure.contestant][figure.kind.measure] = figure
    return [
        Table(
            name=f"stooke2017-{net}",
            title=(
                f"{net} network, {PAPER_CALLS[ACT]:,} inference calls of {PAPER_ROWS[ACT]} and "
                f"{PAPER_CALLS[UPDATE]:,} training steps of {PAPER_ROWS[UPDATE]}: {where(record)}"
            ),
            columns=("Contestant", "Copies", "Inference, s", *COMPARED, "Training, s", *COMPARED),
            rows=tuple(our_row(contestant, data, both) for (data, contestant), both in ours.items())
            + tuple(paper_rows(net)),
        )
        for net, ours in of_net.items()
    ]


def our_row(contestant: str, data: str, both: dict[str, NetFigure]) -> tuple[str, ...]:
    cells: list[str] = [contestant, copies(data)]
    for measure in (ACT, UPDATE):
        figure = both.get(measure)
        cells += [NONE] * 4 if figure is None else [number(figure.paper_seconds.point), *compared(figure)]
    return tuple(cells)


def paper_rows(net: str) -> list[tuple[str, ...]]:
    rows = []
    fastest = {measure: min(row[net][measure] for row in PAPER["row"]) for measure in (ACT, UPDATE)}
    for row in PAPER["row"]:
        cells: list[str] = [f"{row['framework']}, {PAPER['device']} (2017)", copies(PAGEABLE)]
        for measure in (ACT, UPDATE):
            seconds = row[net][measure]
            cells += [
                f"{seconds:.1f}",
                factor(seconds / fastest[measure]),
                NONE,
                f"{row[net][measure + '_gpu']}",
            ]
        rows.append(tuple(cells))
    return rows


def call_table(record: NetsRecord, found: Sequence[NetFigure], name: str = "nets") -> Table:
    """One row per contestant and kind of call."""
    what = record.benchmark.algorithm
    return Table(
        name=name,
        title=f"{what}, time per call: {where(record)}",
        columns=(
            "Network",
            "Call",
            "Rows",
            "Copies",
            "Contestant",
            "µs per call",
            "10–90 %, µs",
            *COMPARED,
        ),
        rows=tuple(
            (
                figure.kind.net,
                figure.kind.measure,
                str(figure.kind.rows),
                copies(figure.kind.data),
                figure.contestant,
                with_interval(figure.seconds, 1e6),
                NONE if figure.spread is None else "–".join(number(end * 1e6) for end in figure.spread),
                *compared(figure),
            )
            for figure in found
        ),
    )


def data_table(found: Sequence[NetFigure], name: str = "nets") -> Table:
    """The same for programs: plain numbers in seconds, empty where nothing was measured."""

    def row(figure: NetFigure) -> dict[str, object]:
        low, high = figure.spread or (None, None)
        return {
            "network": figure.kind.net,
            "call": figure.kind.measure,
            "rows": figure.kind.rows,
            "data": figure.kind.data,
            "contestant": figure.contestant,
            "rounds": figure.seconds.n,
            "seconds": figure.seconds.point,
            "seconds_low": figure.seconds.low,
            "seconds_high": figure.seconds.high,
            "seconds_p10": low,
            "seconds_p90": high,
            "to_fastest": figure.ratio.point,
            "to_fastest_low": figure.ratio.low,
            "to_fastest_high": figure.ratio.high,
            "floor_seconds": None if figure.floor is None else figure.floor.seconds,
            "floor_bound": None if figure.floor is None else figure.floor.bound,
            "to_limit": figure.multiple,
            "gpu_percent": figure.gpu_percent,
        }

    rows = [row(figure) for figure in found]
    return Table(
        name=name,
        title="every kind of call",
        columns=tuple(rows[0]) if rows else (),
        rows=tuple(tuple(plain(value) for value in one.values()) for one in rows),
    )


def plain(value: object) -> str:
    return "" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)


def compared(figure: NetFigure) -> tuple[str, str, str]:
    """Ratio to the fastest, multiple of the limit, GPU utilisation."""
    bounds = span(figure.ratio)
    ratio = (
        "1 (fastest)"
        if figure.fastest
        else f"{number(figure.ratio.point)}×" + (f" ({bounds})" if bounds else "")
    )
    limit = NONE if figure.multiple is None else factor(figure.multiple)
    return ratio, limit, NONE if figure.gpu_percent is None else f"{figure.gpu_percent:.0f}"


def with_interval(estimate: Estimate, scale: float) -> str:
    bounds = span(estimate, scale)
    return number(estimate.point * scale) + (f" ({bounds})" if bounds else "")


def copies(data: str) -> str:
    return {PAGEABLE: "included", PINNED: "included, pinned"}.get(data, "excluded")


def where(record: NetsRecord) -> str:
    """The device, cores and precision, for a title."""
    benchmark, machine = record.benchmark, record.machine
    cores = f"{benchmark.cores} core{'s' if benchmark.cores != 1 else ''}"
    if benchmark.device == "cpu":
        return f"{machine.cpu}, {cores}, {benchmark.dtype}"
    names = ", ".join(dict.fromkeys(gpu.name or "GPU" for gpu in machine.gpus)) or benchmark.device
    return f"{names}, {cores}, {benchmark.dtype}"


def kinds_beside_paper(record: NetsRecord, found: Sequence[NetFigure]) -> list[NetFigure]:
    """The figures that no table of the paper shows."""
    classifier = record.benchmark.algorithm == CLASSIFIER
    return [figure for figure in found if not (classifier and figure.kind.is_papers)]


def errors(record: NetsRecord) -> list[str]:
    """What could not be measured and why, one line per reason."""
    kinds: dict[str, dict[str, None]] = defaultdict(dict)
    contestants: dict[str, dict[str, None]] = defaultdict(dict)
    for measured in record.measurements:
        why = measured.error
        if why is not None:
            kinds[why][f"{measured.kind.measure} {measured.kind.data}"] = None
            contestants[why][measured.contestant] = None
    return [f"Not measured: {', '.join(kinds[why])} of {', '.join(contestants[why])}: {why}" for why in kinds]
