"""Writes the report: results → groups → curves → one HTML file."""

from __future__ import annotations

import base64
import functools
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import vl_convert
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from rldyno import __version__
from rldyno.answers.sentence import headline
from rldyno.answers.table import METRICS, Group, compare
from rldyno.errors import Problem
from rldyno.report import charts, page
from rldyno.report.curves import group_curves
from rldyno.results import Results, load_results

HERE = Path(__file__).parent
# Points of all curves together; a curve keeps between 20 and 100 of them.
POINT_BUDGET = 120_000
# Beyond this many groups a group's charts are folded away until they are asked for.
OPEN_GROUPS = 6
RUN_FACTS = ("started_at", "resumed_at", "rldyno", "git_revision", "versions", "study_sha256")


def write_report(directory: Path, path: Path | None = None) -> Path:
    """Write the report of a results directory, DIR/report.html unless told otherwise; return its path."""
    path = path or directory / "report.html"
    html = render(load_results(directory))
    try:
        path.write_text(html, encoding="utf-8")
    except OSError as error:
        raise Problem(
            f"cannot write {path}: {error.strerror}", fix="choose another place with --out FILE", code=1
        ) from error
    return path


def render(results: Results) -> str:
    groups = compare(results)
    styles = charts.styles_of(results.trials.filter(pl.col("status") == "done")["contestant"].to_list())
    points = curve_points(groups)
    curves = [group_curves(results, group, points) for group in groups]
    data = {
        "charts": chart_specs(charts.html_theme(styles), groups),
        "groups": [page.group_data(group, bands) for group, bands in zip(groups, curves, strict=True)],
    }
    bundle, script = javascript_bundle(), read("script.js")
    environment = Environment(
        loader=FileSystemLoader(HERE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["figure"] = lambda value: "–" if value is None else f"{value:.1e}"
    return environment.get_template("report.html.j2").render(
        title=results.title,
        headline=page.sentence_parts(headline(groups)),
        groups=[page.group_view(group, index) for index, group in enumerate(groups)],
        styles=styles,
        uncertified={row.contestant for group in groups for row in group.rows if not row.certified},
        part_colours=charts.PART_COLOURS,
        open_groups=OPEN_GROUPS,
        trials=len(results.trials),
        ended=len(results.ended),
        pending=results.pending,
        unreadable=[*results.unreadable, *(note for bands in curves for note in bands.damaged)],
        proofs=page.proofs(results),
        failures=page.failures(results),
        absences=page.absences(groups),
        machine=page.flat(machine_facts(results)),
        facts={contestant: page.flat(shown_facts(facts)) for contestant, facts in results.facts.items()},
        noise=noise(results),
        study=results.study,
        directory=str(results.directory),
        version=__version__,
        policy=content_policy(bundle, script),
        style=read("style.css"),
        bundle=bundle,
        script=script,
        data=embedded_json(data),
    )


def chart_specs(theme: charts.Theme, groups: Sequence[Group]) -> dict[str, Any]:
    """Each chart once; its data come per group."""
    made = {
        "learning-steps": charts.learning_against_steps(theme),
        "learning-episodes": charts.learning_against_episodes(theme),
        "learning-time": charts.learning_against_time(theme),
        "cpu": charts.cpu_against_time(theme),
        "memory": charts.memory_against_time(theme),
        "phases": charts.phases(theme),
        "startup": charts.startup(theme),
    }
    primaries = {group.primary.name for group in groups}
    for metric in METRICS:
        if metric.name in primaries:
            x_title = f"{metric.title.lower()}, {metric.unit}"
            made[f"answer-{metric.name}"] = charts.answer(theme, metric.title, x_title)
    return {name: chart.to_dict() for name, chart in made.items()}


def curve_points(groups: Sequence[Group]) -> int:
    curves = 5 * sum(len(group.rows) for group in groups)
    return max(20, min(100, POINT_BUDGET // max(1, curves)))


def noise(results: Results) -> dict[str, float]:
    """Median and worst of what disturbed the trials and what watching them cost."""
    done = results.trials.filter(pl.col("status") == "done")
    figures = {
        "median noise score": done["noise_score"].median(),
        "worst noise score": done["noise_score"].max(),
        "median cost of the probe, % of one core": done["probe_core_percent"].median(),
        "worst cost of the probe, % of one core": done["probe_core_percent"].max(),
    }
    return {name: float(value) for name, value in figures.items() if isinstance(value, int | float)}


def machine_facts(results: Results) -> dict[str, Any]:
    manifest = results.manifest
    return {**manifest.get("machine", {}), **{name: manifest[name] for name in RUN_FACTS if name in manifest}}


def shown_facts(facts: Mapping[str, Any]) -> dict[str, Any]:
    return {name: facts[name] for name in ("python", "numpy", "versions", "backend") if name in facts}


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
    return (HERE / name).read_text(encoding="utf-8")
