"""Teams and a game on a real GPU, kept in docs/samples: what docs/gpu.md says of them comes from there."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from rldyno.results.check import check_directory
from rldyno.results.load import load_results

DOCS = Path(__file__).resolve().parents[2] / "docs"
TEAMS, PONG = (DOCS / "samples" / "h200" / name for name in ("teams", "pong"))
MARKS = (500_000, 1_000_000, 1_500_000, 2_000_000, 2_400_000)


def teams_table() -> list[str]:
    rows = []
    for trial in load_results(TEAMS).trials.sort("contestant", "workers", "collective").iter_rows(named=True):
        share = trial["communication_share"]
        told = "–" if share is None else f"{100 * share:.0f} %"
        speed = f"{trial['steps_per_s']:,.0f}"
        cells = (
            trial["contestant"],
            trial["workers"],
            trial["collective"],
            speed,
            told,
            trial["certificate"],
        )
        rows.append(f"| {' | '.join(map(str, cells))} |")
    return rows


def pong_table() -> list[str]:
    results = load_results(PONG)
    (trial,) = results.trials.filter(pl.col("status") == "done")["trial"]
    episodes = results.episodes(trial)
    rows = []
    for mark in MARKS:
        before = episodes.filter(pl.col("step") <= mark).tail(100)
        minutes = before["time_ns"][-1] / 60e9
        rows.append(f"| {mark / 1e6:.1f} | {minutes:.1f} | {before['return'].mean():.1f} |")
    return rows


def test_the_tables_are_made_of_the_records() -> None:
    page = (DOCS / "gpu.md").read_text(encoding="utf-8")
    missing = [row for row in [*teams_table(), *pong_table()] if row not in page]
    assert not missing, "\n".join(missing)


def test_the_records_have_no_flaw() -> None:
    for directory in (TEAMS, PONG):
        assert check_directory(directory) == []
