"""`import rldyno`: lazy, and the results of a study as tables and answers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import altair as alt
import polars as pl
import pytest

import rldyno
from synthetic import QUICKSTART, ZOO, Contestant, Shape, write_results

HEAVY = {"altair", "numpy", "pandas", "polars", "pydantic", "scipy", "typer", "rich"}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> rldyno.StudyResults:
    shape = Shape(contestants=ZOO, title="Speed & <script>memory</script>")
    return rldyno.load(write_results(tmp_path_factory.mktemp("api") / "results", shape))


def test_importing_rldyno_imports_nothing_heavy() -> None:
    code = "import rldyno, sys; dir(rldyno); print(*(name.partition('.')[0] for name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not set(done.stdout.split()) & HEAVY


def test_every_public_name_exists_and_has_a_docstring() -> None:
    assert {"Study", "StudyResults", "load", "run", "Problem", "Answer"} <= set(dir(rldyno))
    for name in rldyno.__all__:
        assert getattr(rldyno, name).__doc__
    with pytest.raises(AttributeError, match="no attribute 'lode'"):
        _ = rldyno.lode


def test_trials_and_series(results: rldyno.StudyResults) -> None:
    assert results.trials.height == 54
    done = results.trials.filter(pl.col("status") == "done")["trial"].to_list()
    for name in ("episodes", "progress", "samples"):
        frame = getattr(results, name)
        assert frame.columns[0] == "trial"
        assert set(frame["trial"].unique()) == set(done)
        alone = results.series(name, done[0])
        assert alone.equals(frame.filter(pl.col("trial") == done[0]))
    assert results.series("episodes", done[:2])["trial"].n_unique() == 2


def test_an_unknown_trial_is_a_problem(results: rldyno.StudyResults) -> None:
    with pytest.raises(rldyno.Problem, match="no trial is called 'x'"):
        results.series("samples", "x")


def test_the_comparison_as_items_and_as_a_table(results: rldyno.StudyResults) -> None:
    comparison = results.compare()
    assert [group.algorithm for group in comparison] == ["DQN", "PPO"]
    row = comparison.frame.row(by_predicate=row_of("dqn", "jax:jit", "throughput"), named=True)
    best = comparison.frame.row(by_predicate=row_of("dqn", "numpy:eager", "throughput"), named=True)
    assert best["best"]
    assert best["ratio"] == 1
    assert row["low"] <= row["value"] <= row["high"]
    assert row["ratio"] == pytest.approx(best["value"] / row["value"])
    assert row["ratio_low"] < row["ratio"] < row["ratio_high"]
    stale = comparison.frame.row(by_predicate=row_of("dqn", "tensorflow:graph", "memory"), named=True)
    assert "out of date" in stale["not_ranked"]


def row_of(algorithm: str, contestant: str, metric: str) -> pl.Expr:
    wanted = {"algorithm": algorithm, "contestant": contestant, "metric": metric}
    return pl.all_horizontal(pl.col(name) == value for name, value in wanted.items())


def test_advice_and_claims(results: rldyno.StudyResults) -> None:
    advice = results.advise(goal="throughput")
    assert advice.frame["contestant"].to_list() == ["numpy:eager", "numpy:eager"]
    assert "numpy:eager" in str(advice)
    with pytest.raises(rldyno.Problem, match="beauty"):
        results.advise(goal="beauty")
    claims = results.claims()
    assert claims.frame.height == len(claims) > 10
    assert set(claims.frame["verdict"]) <= {"holds", "refuted", "undecided"}


def test_why_there_is_no_advice(tmp_path: Path) -> None:
    alone = rldyno.load(write_results(tmp_path / "r", Shape(contestants=QUICKSTART[:1])))
    assert all(alone.advise().frame["no_advice"])


def test_pandas(results: rldyno.StudyResults) -> None:
    pandas = pytest.importorskip("pandas")
    trials = results.to_pandas()
    assert isinstance(trials, pandas.DataFrame)
    assert list(trials.columns) == results.trials.columns
    assert len(results.to_pandas("episodes")) == results.episodes.height
    assert len(results.compare().to_pandas()) == results.compare().frame.height


def test_pandas_that_is_missing_is_one_message(
    results: rldyno.StudyResults, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(rldyno.Problem) as caught:
        results.to_pandas()
    assert caught.value.fix == "pip install pandas"


def test_html_is_escaped(tmp_path: Path, results: rldyno.StudyResults) -> None:
    shown = results._repr_html_()
    assert "<script>" not in shown
    assert "&lt;script&gt;" in shown
    assert "numpy:eager" in shown
    assert "<script>" not in results.compare()._repr_html_()
    crash = Contestant("torch:<b>bold", 4200, outcome="crashed")
    odd = rldyno.load(write_results(tmp_path / "odd", Shape(contestants=[*QUICKSTART, crash])))
    assert "<b>" not in odd.compare()._repr_html_() + odd.advise()._repr_html_() + odd._repr_html_()


@pytest.mark.slow
def test_charts_are_altair_charts_with_their_data(results: rldyno.StudyResults) -> None:
    names = list(results.charts)
    assert "dqn-on-cartpole-v1--learning-steps" in names
    for name in (names[0], "dqn-on-cartpole-v1--learning-steps", names[-1]):
        chart = results.charts[name]
        assert isinstance(chart, alt.TopLevelMixin)
        assert any(chart.to_dict()["datasets"].values())


@pytest.mark.slow
def test_the_report_is_written_where_asked(results: rldyno.StudyResults, tmp_path: Path) -> None:
    path = results.report(tmp_path / "page.html")
    assert path == tmp_path / "page.html"
    assert "numpy:eager" in path.read_text(encoding="utf-8")


def test_a_directory_without_results_is_a_problem(tmp_path: Path) -> None:
    with pytest.raises(rldyno.Problem):
        rldyno.load(tmp_path)
