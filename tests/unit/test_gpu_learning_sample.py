"""Teams and a game on a real GPU, kept in docs/samples: what docs/gpu.md says of them comes from there."""

from __future__ import annotations

import json
import re
from pathlib import Path

import polars as pl

from rldyno.results.check import check_directory
from rldyno.results.load import load_results

DOCS = Path(__file__).resolve().parents[2] / "docs"
TEAMS, PONG, OPEN = (DOCS / "samples" / "h200" / name for name in ("teams", "pong", "open"))
RUNS = ("ppo-torch", "ppo-jax", "a2c-torch", "a2c-jax")
MARKS = (500_000, 1_000_000, 1_500_000, 2_000_000, 2_500_000, 3_000_000)
FORMS = ("ppo", "agents", "dqn", "a2c")


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
    columns = [pong_column(PONG / name) for name in RUNS]
    heads = [f"{mark / 1e6:.1f}" for mark in MARKS] + ["18 reached"]
    return [f"| {head} | {' | '.join(cells)} |" for head, *cells in zip(heads, *columns, strict=True)]


def pong_column(directory: Path) -> list[str]:
    results = load_results(directory)
    (row,) = results.trials.iter_rows(named=True)
    episodes = results.episodes(row["trial"])
    last = episodes["step"][-1]
    means = [episodes.filter(pl.col("step") <= mark).tail(100)["return"].mean() for mark in MARKS]
    told = [f"{mean:.1f}" if mark <= last else "–" for mark, mean in zip(MARKS, means, strict=True)]
    steps, seconds = row["threshold_steps"], row["threshold_s"]
    return [*told, "–" if steps is None else f"{steps / 1e6:.2f} million, {seconds / 60:.1f} min"]


def open_table() -> list[str]:
    best: dict[tuple[str, str, int], float] = {}
    for form in FORMS:
        for line in (OPEN / f"{form}.jsonl").read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            best[form, row["framework"], row["environments"]] = max(row["steps_per_s"]) / 1e6
    told = {
        key: f"{value:.1f}" if value >= 10 else f"{value:.2f}" if value >= 1 else f"{value:.3g}"
        for key, value in best.items()
    }
    rows = dict.fromkeys((form, count) for form, _, count in best)
    return [f"{told[form, 'jax', count]} | {told.get((form, 'torch', count), '–')} |" for form, count in rows]


def test_the_table_of_open_loops_is_made_of_the_records() -> None:
    page = (DOCS / "open.md").read_text(encoding="utf-8")
    table = page[page.index("### On a GPU") : page.index("## Proof")]
    rows = open_table()
    assert [row for row in rows if row not in table] == []
    assert len(re.findall(r"^\| (?:PPO|DQN|A2C),", table, re.MULTILINE)) == len(rows)


def test_the_tables_are_made_of_the_records() -> None:
    page = (DOCS / "gpu.md").read_text(encoding="utf-8")
    missing = [row for row in [*teams_table(), *pong_table()] if row not in page]
    assert not missing, "\n".join(missing)


def test_the_records_have_no_flaw() -> None:
    for directory in (TEAMS, *(PONG / name for name in RUNS)):
        assert check_directory(directory) == []
