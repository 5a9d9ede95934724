"""The report as one HTML file that needs no network."""

from __future__ import annotations

import base64
import functools
import hashlib
import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rldyno import __version__
from rldyno.answers.analysis import Analysis
from rldyno.errors import Problem
from rldyno.records.files import write_atomically
from rldyno.report import sections
from rldyno.report.heading import heading_of
from rldyno.report.libraries import alt, jinja2, vl_convert
from rldyno.report.material import OPEN_GROUPS, Material
from rldyno.report.section import Chart, Panel, Section
from rldyno.report.theme import PART_COLOURS, html_theme
from rldyno.text.tables import Table, holds_numbers

TEMPLATES = Path(__file__).parent / "templates"
# Longer tables are cut: --figures has them whole.
TABLE_ROWS = 60


@dataclass(frozen=True)
class SectionView:
    """A section of these results, ready for the page."""

    section: Section
    panels: tuple[Panel, ...]
    html: str


def write_report(analysis: Analysis, path: Path | None = None) -> Path:
    """Write the report, DIR/report.html unless another path is given; return its path."""
    path = path or analysis.results.directory / "report.html"
    html = render(analysis)
    try:
        write_atomically(path, html)
    except OSError as error:
        raise Problem(
            f"cannot write {path}: {error.strerror}",
            fix="free some space, or choose another place with --out FILE",
            code=1,
        ) from error
    return path


def render(analysis: Analysis) -> str:
    with ThreadPoolExecutor(1) as aside:
        # It takes more than a second, during which another core can gather.
        bundled = aside.submit(javascript_bundle)
        material = Material(analysis, sections.all_sections())
        templates = environment()
        views = [view for section in material.sections if (view := view_of(section, material, templates))]
        bundle = bundled.result()
    results, script = material.results, read("script.js")
    page: str = templates.get_template("page.html.j2").render(
        heading=heading_of(results, material.groups),
        views=views,
        legend=legend_range(views),
        styles=material.legend,
        uncertified={row.contestant for group in material.groups for row in group.rows if not row.certified},
        part_colours=PART_COLOURS,
        policy=content_policy(bundle, script),
        style=read("style.css"),
        bundle=bundle,
        script=script,
        data=embedded_json(chart_data(material, views)),
    )
    return page


def view_of(section: Section, material: Material, templates: Any) -> SectionView | None:
    """None where these results have nothing to show in it."""
    if section.shown is not None and not section.shown(material):
        return None
    panels = tuple(section.charts(material))

    @functools.cache
    def tables() -> tuple[Table, ...]:
        return tuple(section.tables(material))

    if section.shown is None and not any(panel.charts for panel in panels) and not tables():
        return None
    source = section.template or (templates.loader.get_source(templates, f"{section.id}.html.j2")[0])
    template = templates.from_string(f'{{% import "macros.html.j2" as m %}}{MACROS}{source}')
    html = template.render(section=section, panels=panels, tables=tables, **section.context(material))
    return SectionView(section, panels, html)


MACROS = "".join(f"{{% set {name} = m.{name} %}}" for name in ("words", "mark", "chart", "charts", "table"))


def legend_range(views: Sequence[SectionView]) -> tuple[int, int]:
    """The first and the last section beside which the legend stays in view; (-1, -1) where there is none."""
    drawn = [index for index, view in enumerate(views) if view.section.legend]
    return (drawn[0], drawn[-1]) if drawn else (-1, -1)


def chart_data(material: Material, views: Sequence[SectionView]) -> dict[str, Any]:
    """Drawing instructions by the id of the chart; data by the id of the panel, then by that of the chart."""
    theme = html_theme(material.styles)
    first: dict[str, Chart] = {}
    held: dict[str, dict[str, Any]] = {}
    for view in views:
        for panel in view.panels:
            for chart in panel.charts:
                first.setdefault(chart.id, chart)
                held.setdefault(panel.id, {})[chart.id] = chart.packed
    # Tests check that charts are valid; here it would take longer than reading a thousand trials.
    with alt.utils.schemapi.debug_mode(False):
        drawn = {
            name: chart.draw(theme, chart.title).to_dict(validate=False) for name, chart in first.items()
        }
    return {"charts": drawn, "panels": held}


def environment() -> Any:
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader([TEMPLATES, *sections.__path__]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        extensions=["jinja2.ext.do"],
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals |= {"version": __version__, "open_groups": OPEN_GROUPS, "table_rows": TABLE_ROWS}
    made.filters["error"] = lambda value: "–" if value is None else "0" if value == 0 else f"{value:.0e}"
    made.filters["parts"] = sentence_parts
    made.filters["number_columns"] = lambda table: {
        index for index in range(len(table.columns)) if holds_numbers(table, index)
    }
    return made


def sentence_parts(text: str) -> list[tuple[bool, str]]:
    """Text and the names in it: `(is a name, words)`, from backticks."""
    return [(index % 2 == 1, part) for index, part in enumerate(text.split("`")) if part]


def embedded_json(value: Any) -> str:
    """JSON that is inert inside a script element, whatever its strings hold."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False, ensure_ascii=True)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


@functools.cache
def javascript_bundle() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script that sets `window.drawChart`."""
    bundle: str = vl_convert.javascript_bundle("window.drawChart = vegaEmbed;")
    return "(()=>{" + bundle.replace("</script", "<\\/script") + "})();"


def content_policy(*scripts: str) -> str:
    """Only our own scripts run, and nothing is fetched from anywhere."""
    hashes = (base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts)
    allowed = " ".join(f"'sha256-{digest}'" for digest in hashes)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:; base-uri 'none'"
    )


def read(name: str) -> str:
    return (TEMPLATES / name).read_text(encoding="utf-8")
