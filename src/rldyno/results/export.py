"""Results as tables for other tools, with a README that explains their columns."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import polars as pl
from polars.io.plugins import register_io_source

from rldyno.errors import Problem
from rldyno.probe.metrics import sample_columns, sample_meanings
from rldyno.records.csv_files import Columns, column_kinds
from rldyno.records.files import refuse_link, replacing, write_atomically
from rldyno.results.columns import COLUMNS, INTEGRALS
from rldyno.results.integrals import integrals_table
from rldyno.results.load import Results
from rldyno_rig import schema

FORMATS = {"parquet": ("parquet",), "csv": ("csv",), "both": ("parquet", "csv")}

SERIES_MEANINGS = {
    "trial": "id of the trial; joins with trials",
    "episode": "number of the episode, from 1; in progress: episodes finished so far",
    "env": "environment, among those stepped side by side",
    "step": "environment steps so far",
    "time_ns": "nanoseconds since the worker was spawned",
    "return": "undiscounted return of the episode",
    "length": "steps of the episode",
    "terminated": "1: the task ended; 0: the time limit did",
    "update": "gradient updates so far",
    "return_mean": "running mean return",
    "loss": "loss of a recent update",
    **{f"{phase}_ns": f"nanoseconds spent so far in: {phase}" for phase in schema.PHASES},
    f"{schema.COMMUNICATE}_ns": "nanoseconds spent so far in averaging gradients; empty for one worker",
}


REASON_MEANINGS = {
    "trial": "id of the trial; joins with trials",
    "column": "column of trials or integrals that is empty for it",
    "reason": "why it could not be measured",
}


def export_results(results: Results, out: Path | None = None, form: str = "parquet") -> list[Path]:
    """Write the tables to `out`, or to DIR/export; return the files."""
    if form not in FORMATS:
        raise Problem(f"unknown format `{form}`", fix="use --format parquet, csv or both")
    if out is None:
        out = results.directory / "export"
        for folder in (out, out / "tables"):
            refuse_link(folder)
    try:
        out.mkdir(parents=True, exist_ok=True)
        return [path for suffix in FORMATS[form] for path in write_tables(results, out, suffix)] + [
            write_readme(results, out)
        ]
    except (OSError, pl.exceptions.PolarsError) as error:  # Polars has errors of its own for a full disk
        why = getattr(error, "strerror", None) or error
        raise Problem(
            f"cannot write to {out}: {why}", fix="free some space, or choose another place with --out", code=1
        ) from error


def write_tables(results: Results, out: Path, suffix: str) -> list[Path]:
    tables = {
        "trials": results.trials.lazy(),
        "episodes": all_series(results, results.episodes, schema.EPISODE_COLUMNS),
        "progress": all_series(results, results.progress, schema.PROGRESS_COLUMNS),
        "samples": all_series(results, results.samples, sample_columns()),
    }
    found, unknown = integrals_table(results)
    tables |= {"integrals": found.lazy(), "reasons": reasons_table(results, unknown)}
    paths = []
    for name, table in tables.items():
        path = out / f"{name}.{suffix}"
        with replacing(path) as temporary:
            if suffix == "parquet":
                table.sink_parquet(temporary)
            else:
                table.sink_csv(temporary)
        paths.append(path)
    return paths


def reasons_table(results: Results, more: Sequence[tuple[str, str, str]]) -> pl.LazyFrame:
    """Why a trial has no figure in a column of `trials` or `integrals`."""
    rows = [(trial, column, why) for trial, said in results.reasons.items() for column, why in said.items()]
    return pl.LazyFrame([*rows, *more], schema=dict.fromkeys(REASON_MEANINGS, pl.String), orient="row")


def all_series(results: Results, read: Callable[[str], pl.DataFrame], columns: Columns) -> pl.LazyFrame:
    """One table of all trials' series, read as it is written: together they may not fit into memory."""
    types = {"trial": pl.String} | {
        name: pl.Float64 if kind is float else pl.Int64 for name, kind in column_kinds(columns).items()
    }

    def source(
        with_columns: list[str] | None, predicate: pl.Expr | None, n_rows: int | None, batch_size: int | None
    ) -> Iterator[pl.DataFrame]:
        for trial in results.ended["trial"]:
            try:
                frame = read(trial)
            except Problem as problem:
                print(f"left out: {problem.message}", file=sys.stderr)
                continue
            yield frame.select(pl.lit(trial).alias("trial"), pl.all())

    return register_io_source(source, schema=types)


def write_readme(results: Results, out: Path) -> Path:
    hypers = {
        name: "hyper-parameter that the study varies" for name in results.axes if name.startswith("hyper.")
    }
    trials = {name: column.meaning for name, column in COLUMNS.items()} | hypers
    series = {
        "episodes: one row per finished episode": schema.EPISODE_COLUMNS,
        "progress: one row per second of training, all counts cumulative": schema.PROGRESS_COLUMNS,
        "samples: what the probe saw from outside": sample_columns(),
    }
    lines = [
        "# rldyno results",
        "",
        "Units are in the names: `_s` seconds, `_ns` nanoseconds, `_w` watts, `_bytes`, and so on.",
        "An empty value was not measured; it never stands for zero.",
        *table("trials: one row per trial", trials),
    ]
    meanings = SERIES_MEANINGS | sample_meanings()
    for title, columns in series.items():
        lines += table(title, {name: meanings[name] for name in ("trial", *columns)})
    lines += table(
        "integrals: of whole runs, as liu2022 draws them",
        {"trial": SERIES_MEANINGS["trial"]} | {column.name: column.meaning for column in INTEGRALS},
    )
    lines += table("reasons: why a trial has no figure in a column of trials or integrals", REASON_MEANINGS)
    path = out / "README.md"
    write_atomically(path, "\n".join(lines) + "\n")
    return path


def table(title: str, meanings: Mapping[str, str]) -> list[str]:
    rows = [f"| `{name}` | {meaning} |" for name, meaning in meanings.items()]
    return ["", f"## {title}", "", "| column | meaning |", "|---|---|", *rows]
