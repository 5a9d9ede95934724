"""Writes the report: results → groups → curves → one HTML file."""

from __future__ import annotations

import base64
import functools
import hashlib
import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import polars as pl
import vl_convert
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from rldyno import __version__
from rldyno.answers.sentence import headline
from rldyno.errors import Problem
from rldyno.report import crimes, hardware, page, parity, verdicts
from rldyno.report.content import gather
from rldyno.report.limits import low_limits
from rldyno.report.nets import nets_remarks
from rldyno.report.seeds import seeds_words
from rldyno.report.theme import PART_COLOURS, html_theme
from rldyno.results.load import Results, load_results
from rldyno.text.tables import is_figure
from rldyno_rig import schema

TEMPLATE = Path(__file__).parent / "template"
# Beyond this many groups a group's charts are folded away until they are asked for.
OPEN_GROUPS = 6
# Longer tables are cut: --figures has them whole.
TABLE_ROWS = 60
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
    with ThreadPoolExecutor(1) as aside:
        # It takes more than a second, during which another core can gather.
        bundled = aside.submit(javascript_bundle)
        content = gather(results)
    groups = content.groups
    theme = html_theme(content.styles)
    scopes = {scope.id: scope.charts for scope in content.scopes}
    used = {name for charts in scopes.values() for name in charts}
    data = {
        "charts": {
            # Their validity is tested; checking it here would take longer than reading a thousand trials.
            name: make(theme).to_dict(validate=False)
            for name, make in content.definitions.items()
            if name in used
        },
        "scopes": scopes,
    }
    bundle, script = bundled.result(), read("script.js")
    return (
        environment()
        .get_template("report.html.j2")
        .render(
            title=results.title,
            headline=page.sentence_parts(headline(groups)),
            groups=[
                page.group_view(results, group, scope, index == 0 or len(groups) <= OPEN_GROUPS)
                for index, (group, scope) in enumerate(zip(groups, content.comparisons, strict=True))
            ],
            algorithms=sorted({group.algorithm for group in groups}),
            environments=sorted({group.environment for group in groups}),
            tasks=content.tasks,
            axes=content.axes,
            run=content.run,
            tables=content.tables,
            has={"gpu": bool(used & {"gpu", "gpu-memory", "power"})},
            styles=content.styles,
            uncertified={row.contestant for group in groups for row in group.rows if not row.certified},
            part_colours=PART_COLOURS,
            open_groups=OPEN_GROUPS,
            trials=len(results.trials),
            ended=len(results.ended),
            pending=results.pending,
            unreadable=[*results.unreadable, *content.damaged],
            parity=parity.parity_tables(results),
            parity_summary=parity.parity_summary(results),
            unproven=parity.unproven(results, groups),
            divergences=parity.divergences(results, groups),
            advice=verdicts.task_advice(results, groups),
            claims=verdicts.judged_claims(results),
            crimes=crimes.lint(results, groups),
            not_measured=hardware.not_measured(results, groups),
            failures=page.failures(results),
            absences=page.absences(groups),
            machine=page.flat(machine_facts(results)),
            facts={contestant: page.flat(shown_facts(facts)) for contestant, facts in results.facts.items()},
            noise=noise(results),
            low_limits=low_limits(results),
            nets_remarks=nets_remarks(results),
            phase_charts=[f"phase-{phase}" for phase in schema.PHASES],
            table_rows=TABLE_ROWS,
            study=results.study,
            seeds=seeds_words(results),
            left_out=results.manifest.get("left_out") or [],
            amended=results.manifest.get("amended") or [],
            toolchains=page.toolchains(results),
            version=__version__,
            revision=results.manifest.get("git_revision"),
            policy=content_policy(bundle, script),
            style=read("style.css"),
            bundle=bundle,
            script=script,
            data=embedded_json(data),
        )
    )


def environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(TEMPLATE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["figure"] = lambda value: "–" if value is None else "0" if value == 0 else f"{value:.0e}"
    made.filters["words"] = page.sentence_parts
    made.filters["figure_columns"] = lambda table: {
        index for index in range(len(table.columns)) if is_figure(table, index)
    }
    return made


def noise(results: Results) -> dict[str, float]:
    """Median and worst of what disturbed the trials and what watching them cost."""
    done = results.trials.filter(pl.col("status") == "done")
    figures = {
        "median noise score": done["noise_score"].median(),
        "worst noise score": done["noise_score"].max(),
        "fastest calibration, ms": milliseconds(done["calibration_ns"].min()),
        "slowest calibration, ms": milliseconds(done["calibration_ns"].max()),
        "median cost of the probe, % of one core": done["probe_core_percent"].median(),
        "worst cost of the probe, % of one core": done["probe_core_percent"].max(),
    }
    return {name: float(value) for name, value in figures.items() if isinstance(value, int | float)}


def milliseconds(nanoseconds: object) -> float | None:
    return nanoseconds / 1e6 if isinstance(nanoseconds, int) else None


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
    return (TEMPLATE / name).read_text(encoding="utf-8")
