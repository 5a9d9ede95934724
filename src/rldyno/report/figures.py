"""Every chart and table of the report as files: pictures, data, Markdown and LaTeX."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rldyno.answers.analysis import Analysis
from rldyno.errors import Problem
from rldyno.records.files import write_atomically
from rldyno.report.libraries import vl_convert
from rldyno.report.material import Material, stems
from rldyno.report.section import Chart, Panel
from rldyno.report.sections import all_sections
from rldyno.report.theme import AltairChart, Style, picture_theme
from rldyno.text.tables import Table, comma_separated, latex, markdown

# Every picture is made from the SVG, so that a chart is laid out once.
PICTURES: dict[str, Callable[[str], bytes]] = {
    "png": lambda svg: vl_convert.svg_to_png(svg, scale=2),
    "svg": lambda svg: svg.encode(),
    "pdf": lambda svg: bytes(vl_convert.svg_to_pdf(svg)),
}
TABLES: dict[str, Callable[[Table], str]] = {
    "csv": comma_separated,
    "md": markdown,
    "tex": latex,
}
FORMATS = (*PICTURES, *TABLES)


@dataclass(frozen=True)
class Written:
    """One chart or table, and its files."""

    title: str
    caption: str
    paths: list[Path]


def charts_of(analysis: Analysis) -> dict[str, AltairChart]:
    """Every chart of the report as an Altair object that holds its data, by the name of its files."""
    material = Material(analysis, all_sections())
    theme = picture_theme(material.styles)
    panels = [panel for section in material.sections for panel in section.charts(material)]
    return {name: chart.altair(theme, panel.label) for name, panel, chart in named_charts(panels)}


def tables_of(analysis: Analysis) -> dict[str, Table]:
    """Every table of the report, whole, by the name of its files."""
    return {table.name: table for table in every_table(Material(analysis, all_sections()))}


def write_figures(analysis: Analysis, out: Path, formats: Sequence[str] = FORMATS) -> list[Path]:
    """Write every chart and table of the results to `out`; return the files, the index first."""
    known_formats(formats)
    material = Material(analysis, all_sections())
    panels = [panel for section in material.sections for panel in section.charts(material)]

    def entries() -> Iterator[Written]:
        yield from write_charts(panels, material.styles, out, formats)
        yield from write_tables(material, out, formats)

    return write_index(out, material.results.title, entries)


def known_formats(formats: Sequence[str]) -> None:
    """A Problem where one is not."""
    unknown = [name for name in formats if name not in FORMATS]
    if unknown:
        raise Problem(
            f"unknown format {', '.join(f'`{name}`' for name in unknown)}",
            fix=f"--format takes some of {','.join(FORMATS)}, separated by commas",
        )


def write_index(out: Path, title: str, make: Callable[[], Iterable[Written]]) -> list[Path]:
    """Make the files in `out`, and an index of them; return all, the index first."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        entries = list(make())
        index = out / "index.md"
        write_atomically(index, index_text(title, entries))
    except OSError as error:
        raise Problem(
            f"cannot write to {out}: {error.strerror}",
            fix="free some space, or choose another place with --figures OUTDIR",
            code=1,
        ) from error
    return [index, *(path for entry in entries for path in entry.paths)]


def export_tables(analysis: Analysis, out: Path) -> list[Path]:
    """Every table of the report, whole, as CSV files in `out`."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        written = write_tables(Material(analysis, all_sections()), out, ["csv"])
        return [path for entry in written for path in entry.paths]
    except OSError as error:
        raise Problem(
            f"cannot write to {out}: {error.strerror}",
            fix="free some space, or choose another place with --out",
            code=1,
        ) from error


def named_charts(panels: Sequence[Panel]) -> Iterator[tuple[str, Panel, Chart]]:
    """(name of its files, panel, chart) of every chart that has data."""
    names = panel_stems(panels)
    for panel in panels:
        for chart in panel.charts:
            if any("contestant" in row for row in chart.all_rows):
                yield f"{names[panel.id]}--{chart.id}", panel, chart


def panel_stems(panels: Iterable[Panel]) -> dict[str, str]:
    """Panel → the beginning of its file names; unique among the panels of one kind (`group-…`, `task-…`).

    Panels of different kinds have different charts, and may share it.
    """
    kinds: dict[str, dict[str, str]] = {}
    for panel in panels:
        kinds.setdefault(panel.id.partition("-")[0], {})[panel.id] = panel.label
    return {
        panel: stem
        for labels in kinds.values()
        for panel, stem in zip(labels, stems(labels.values()), strict=True)
    }


def write_charts(
    panels: Sequence[Panel], styles: tuple[Style, ...], out: Path, formats: Sequence[str]
) -> Iterator[Written]:
    theme = picture_theme(styles)
    makers = {suffix: make for suffix, make in PICTURES.items() if suffix in formats}
    for name, panel, chart in named_charts(panels):
        files: dict[str, bytes] = {}
        if makers:
            # Nothing is fetched, whatever a chart's text holds.
            svg = vl_convert.vegalite_to_svg(chart.altair(theme, panel.label).to_dict(), allowed_base_urls=[])
            files = {suffix: make(svg) for suffix, make in makers.items()}
        if "csv" in formats:
            files["csv"] = rows_csv(chart.all_rows).encode()
        paths = [write(out / f"{name}.{suffix}", body) for suffix, body in files.items()]
        yield Written(f"{panel.label}: {chart.title}", chart.caption, paths)


def write_tables(material: Material, out: Path, formats: Sequence[str]) -> Iterator[Written]:
    for table in every_table(material):
        files = {suffix: make(table) for suffix, make in TABLES.items() if suffix in formats}
        paths = [write(out / f"{table.name}.{suffix}", text.encode()) for suffix, text in files.items()]
        yield Written(table.title, "", paths)


def every_table(material: Material) -> list[Table]:
    return [table for section in material.sections for table in section.tables(material)]


def rows_csv(rows: Sequence[dict[str, Any]]) -> str:
    columns = list(dict.fromkeys(name for row in rows for name in row))
    stream = io.StringIO()
    writer = csv.DictWriter(stream, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue()


def index_text(title: str, entries: Iterable[Written]) -> str:
    lines = [f"# {one_line(title)}", ""]
    for entry in entries:
        links = ", ".join(f"[{path.suffix[1:]}]({path.name})" for path in entry.paths)
        if links:
            caption = f"  \n  {one_line(entry.caption)}" if entry.caption else ""
            lines.append(f"- {one_line(entry.title)}: {links}{caption}")
    return "\n".join(lines) + "\n"


def one_line(text: str) -> str:
    return " ".join(text.split())


def write(path: Path, body: bytes) -> Path:
    write_atomically(path, body)
    return path
