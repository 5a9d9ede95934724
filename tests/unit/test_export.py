from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from rldyno.errors import Problem
from rldyno.results.export import export_results
from rldyno.results.load import load_results
from synthetic import Shape, write_results

TABLES = ("trials", "episodes", "progress", "samples", "integrals", "reasons")


def test_parquet_holds_every_row(tmp_path: Path) -> None:
    root = write_results(tmp_path / "r", Shape(seeds=1, pending=1))
    export_results(load_results(root))
    results = load_results(root)
    assert pl.read_parquet(root / "export/trials.parquet").equals(results.trials)
    for name, read in (
        ("episodes", results.episodes),
        ("progress", results.progress),
        ("samples", results.samples),
    ):
        table = pl.read_parquet(root / f"export/{name}.parquet")
        for trial in results.ended["trial"]:
            assert table.filter(trial=trial).drop("trial").equals(read(trial))


def test_csv_says_the_same_and_the_readme_explains_every_column(tmp_path: Path) -> None:
    root = write_results(tmp_path / "r", Shape(seeds=1, algorithms=["dqn"], hyper={"batch_size": [32, 64]}))
    paths = export_results(load_results(root), tmp_path / "out", "both")
    assert sorted(path.name for path in paths) == sorted(
        ["README.md", *(f"{name}.{form}" for name in TABLES for form in ("csv", "parquet"))]
    )
    readme = (tmp_path / "out/README.md").read_text()
    for name in TABLES:
        parquet = pl.read_parquet(tmp_path / f"out/{name}.parquet")
        assert pl.read_csv(tmp_path / f"out/{name}.csv", schema=parquet.schema).equals(parquet)
        assert all(f"| `{column}` | " in readme for column in parquet.columns)


def test_a_damaged_series_is_left_out_and_said(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    root = write_results(tmp_path / "r", Shape(seeds=1))
    trial = load_results(root).trials["trial"][0]
    (root / "trials" / trial / "episodes.csv").write_text("garbage\n1\n")
    export_results(load_results(root))
    assert f"left out: {root}/trials/{trial}/episodes.csv" in capfd.readouterr().err
    assert trial not in set(pl.read_parquet(root / "export/episodes.parquet")["trial"])


def test_wrong_format_and_unwritable_place(tmp_path: Path) -> None:
    root = write_results(tmp_path / "r", Shape(seeds=1))
    with pytest.raises(Problem, match="unknown format `xls`"):
        export_results(load_results(root), form="xls")
    (tmp_path / "file").write_text("")
    with pytest.raises(Problem, match="cannot write"):
        export_results(load_results(root), tmp_path / "file")
