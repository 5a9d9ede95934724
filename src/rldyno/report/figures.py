"""Every chart and table of the report as files: pictures, data, Markdown and LaTeX."""

from __future__ import annotations

import csv
import io
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import vl_convert

from rldyno.errors import Problem
from rldyno.report import crimes, parity, tables
from rldyno.report.charts import with_rows
from rldyno.report.content import Content, Scope, gather, slug
from rldyno.report.data import unpacked
from rldyno.report.theme import Theme, picture_theme
from rldyno.report.turns import turns_table
from rldyno.report.verdicts import judged_claims
from rldyno.results.load import load_results
from rldyno.text.tables import Table, comma_separated, latex, markdown

Json = dict[str, Any]
# Every picture is made from the SVG, so that a chart is laid out once.
PICTURES: dict[str, Callable[[str], bytes]] = {
    "png": lambda svg: vl_convert.svg_to_png(svg, scale=2),
    "svg": lambda svg: svg.encode(),
    "pdf": vl_convert.svg_to_pdf,
}
TABLES: dict[str, Callable[[Table], str]] = {
    "csv": comma_separated,
    "md": markdown,
    "tex": latex,
}
FORMATS = (*PICTURES, *TABLES)
# Nothing is fetched, whatever a chart's text holds.
NO_NETWORK: Json = {"allowed_base_urls": []}


def write_figures(directory: Path, out: Path, formats: Sequence[str] = FORMATS) -> list[Path]:
    """Write every chart and table of the results to `out`; return the files, the index first."""
    unknown = [name for name in formats if name not in FORMATS]
    if unknown:
        raise Problem(
            f"unknown format {', '.join(f'`{name}`' for name in unknown)}",
            fix=f"--format takes some of {','.join(FORMATS)}, separated by commas",
        )
    content = gather(load_results(directory))
    try:
        out.mkdir(parents=True, exist_ok=True)
        entries = [*write_charts(content, out, formats), *write_tables(content, out, formats)]
        index = out / "index.md"
        index.write_text(index_text(content.results.title, entries), encoding="utf-8")
    except OSError as error:
        raise Problem(
            f"cannot write to {out}: {error.strerror}",
            fix="choose another place with --figures OUTDIR",
            code=1,
        ) from error
    return [index, *(path for _, paths in entries for path in paths)]


def write_charts(content: Content, out: Path, formats: Sequence[str]) -> Iterator[tuple[str, list[Path]]]:
    """(what it shows, its files) of every chart that has data."""
    theme = picture_theme(content.styles)
    for scope, stem in zip(content.scopes, stems(content.scopes), strict=True):
        for name, data in scope.charts.items():
            rows = unpacked(data)
            if any("contestant" in row for row in rows):
                chart = content.definitions[name](shown_in(theme, rows))
                spec = with_rows(chart, rows).to_dict()
                files = pictures(spec, formats)
                if "csv" in formats:
                    files["csv"] = rows_csv(rows).encode()
                title = f"{scope.label}: {spec['description']}"
                yield title, [write(out / f"{stem}--{name}.{suffix}", body) for suffix, body in files.items()]


def pictures(spec: Json, formats: Sequence[str]) -> dict[str, bytes]:
    makers = {suffix: make for suffix, make in PICTURES.items() if suffix in formats}
    if not makers:
        return {}
    svg = vl_convert.vegalite_to_svg(spec, **NO_NETWORK)
    return {suffix: make(svg) for suffix, make in makers.items()}


def shown_in(theme: Theme, rows: Iterable[Json]) -> Theme:
    """The theme with a legend of only those contestants that the chart holds, in their usual colours."""
    held = {row.get("contestant") for row in rows}
    kept = [index for index, style in enumerate(theme.styles) if style.contestant in held]
    return theme.only(kept)


def write_tables(content: Content, out: Path, formats: Sequence[str]) -> Iterator[tuple[str, list[Path]]]:
    for table in all_tables(content):
        files = {suffix: make(table) for suffix, make in TABLES.items() if suffix in formats}
        yield (
            table.title,
            [write(out / f"{table.name}.{suffix}", text.encode()) for suffix, text in files.items()],
        )


def all_tables(content: Content) -> list[Table]:
    results, groups = content.results, content.groups
    found = [
        tables.comparison_table(group, f"{stem}--comparison")
        for group, stem in zip(groups, stems(content.comparisons), strict=True)
    ]
    found += [
        tables.parity_as_table(item, f"parity--{slug(item.label)}") for item in parity.parity_tables(results)
    ]
    parted = parity.divergences(results, groups)
    found += [tables.divergence_table(parted)] if parted else []
    found += [
        turns
        for group, stem in zip(groups, stems(content.comparisons), strict=True)
        if (turns := turns_table(group, f"{stem}--overtaking")) is not None
    ]
    found += [table for section in content.tables.values() for table in section]
    claims = tables.claims_table(judged_claims(results))
    return [*found, claims, tables.crimes_table(crimes.lint(results, groups))]


def stems(scopes: Sequence[Scope]) -> list[str]:
    """Names of files from the scopes' labels; a number is appended where two of one kind would be the same.

    Scopes of different kinds have different charts, and may share a name.
    """
    seen: dict[tuple[str, str], itertools.count[int]] = {}
    names = []
    for scope in scopes:
        stem = slug(scope.label)[:120]
        kind = scope.id.partition("-")[0]
        number = next(seen.setdefault((kind, stem), itertools.count(1)))
        names.append(stem if number == 1 else f"{stem}-{number}")
    return names


def rows_csv(rows: Sequence[Json]) -> str:
    columns = list(dict.fromkeys(name for row in rows for name in row))
    stream = io.StringIO()
    writer = csv.DictWriter(stream, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue()


def index_text(title: str, entries: Iterable[tuple[str, Sequence[Path]]]) -> str:
    lines = [f"# {one_line(title)}", ""]
    for what, paths in entries:
        links = ", ".join(f"[{path.suffix[1:]}]({path.name})" for path in paths)
        if links:
            lines.append(f"- {one_line(what)}: {links}")
    return "\n".join(lines) + "\n"


def one_line(text: str) -> str:
    return " ".join(text.split())


def write(path: Path, body: bytes) -> Path:
    path.write_bytes(body)
    return path
