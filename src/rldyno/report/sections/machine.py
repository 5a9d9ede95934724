"""The noise of every trial, the machine, and what each contestant reported about itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from rldyno.records.status import DONE
from rldyno.report.libraries import alt
from rldyno.report.material import Material
from rldyno.report.parts import data
from rldyno.report.section import Chart, Panel, Section, significant
from rldyno.report.theme import AltairChart, Theme, colour, finished, shape, visible
from rldyno.results.load import Results

RUN_FACTS = ("started_at", "resumed_at", "rldyno", "git_revision", "versions", "study_sha256")
CONTESTANT_FACTS = ("python", "numpy", "versions", "backend")
# More trials than this make no better picture of the noise; the worst are kept.
NOISE_POINTS = 1500
CAPTION = (
    "The score adds the spread of a fixed piece of work, timed before each trial, and the shares of CPU "
    "time that other processes and other guests took during it: 0 on an idle machine, 0.1 when a tenth of "
    "the time was lost."
)


def charts(material: Material) -> list[Panel]:
    rows = noise_rows(material.results)
    return [Panel("run", "All trials", (Chart("noise", "Noise of every trial", CAPTION, draw_noise, rows),))]


def noise_rows(results: Results) -> list[dict[str, Any]]:
    """Trials in the order they ran."""
    done = results.trials.filter(pl.col("status") == DONE, pl.col("noise_score").is_not_null())
    ordered = done.sort("started_at", maintain_order=True).with_row_index("x", offset=1)
    kept = ordered.sort("noise_score", descending=True).head(NOISE_POINTS).sort("x")
    return [
        {"contestant": contestant, "trial": trial, "x": x, "y": significant(score)}
        for contestant, trial, x, score in kept.select("contestant", "trial", "x", "noise_score").iter_rows()
    ]


def draw_noise(theme: Theme, title: str) -> AltairChart:
    points = (
        visible(data())
        .mark_point(size=28, filled=True, opacity=0.7)
        .encode(
            x=alt.X("x:Q", title="trial, in the order they ran", axis=alt.Axis(tickCount=5, tickMinStep=1)),
            y=alt.Y("y:Q", title="noise score", scale=alt.Scale(zero=True)),
            color=colour(theme),
            shape=shape(theme),
            tooltip=[
                alt.Tooltip("contestant:N"),
                alt.Tooltip("trial:N"),
                alt.Tooltip("y:Q", title="noise score", format=".3f"),
            ],
        )
    )
    return finished(points, theme, title)


def context(material: Material) -> dict[str, Any]:
    results = material.results
    manifest = results.manifest.to_json()
    machine = {
        **results.manifest.machine.to_json(),
        **{name: manifest[name] for name in RUN_FACTS if name in manifest},
    }
    facts = {
        contestant: flat({name: getattr(found, name) for name in CONTESTANT_FACTS})
        for contestant, found in results.facts.items()
    }
    return {"noise": noise(results), "machine": flat(machine), "facts": facts}


def noise(results: Results) -> dict[str, float]:
    """Median and worst of what disturbed the trials and what measuring them cost."""
    done = results.trials.filter(pl.col("status") == DONE)
    found = {
        "median noise score": done["noise_score"].median(),
        "worst noise score": done["noise_score"].max(),
        "fastest calibration, ms": milliseconds(done["calibration_ns"].min()),
        "slowest calibration, ms": milliseconds(done["calibration_ns"].max()),
        "median cost of the probe, % of one core": done["probe_core_percent"].median(),
        "worst cost of the probe, % of one core": done["probe_core_percent"].max(),
    }
    return {name: float(value) for name, value in found.items() if isinstance(value, int | float)}


def milliseconds(nanoseconds: object) -> float | None:
    return nanoseconds / 1e6 if isinstance(nanoseconds, int) else None


def flat(value: Any, name: str = "") -> list[tuple[str, str]]:
    """A nested record as (name, text) pairs; the name of an inner record goes in front."""
    if isinstance(value, Mapping):
        return [pair for key, inner in value.items() for pair in flat(inner, f"{name} {key}".strip())]
    if isinstance(value, list):
        if any(isinstance(item, Mapping | list) for item in value):
            return [pair for index, item in enumerate(value, 1) for pair in flat(item, f"{name} {index}")]
        return [(name.replace("_", " "), ", ".join(map(value_words, value)) or "none")]
    if name.endswith("_bytes") and isinstance(value, int):
        text = f"{value / 1e9:,.1f} GB" if value > 1e9 else f"{value / 1e6:,.1f} MB"
        return [(name.removesuffix("_bytes").replace("_", " "), text)]
    return [(name.replace("_", " "), value_words(value))]


def value_words(value: Any) -> str:
    if value is None:
        return "unknown"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


SECTION = Section(
    id="machine",
    order=190,
    title="Noise and machine",
    about="the noise of every trial, the machine, the packages",
    short="Machine",
    charts=charts,
    context=context,
    shown=lambda _: True,
)
