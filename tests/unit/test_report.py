from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from rldyno.answers.table import compare
from rldyno.errors import Problem
from rldyno.report import charts, write_report
from rldyno.report.curves import band, group_curves, rate_band, running_mean
from rldyno.report.page import flat, sentence_parts
from rldyno.report.write import embedded_json
from rldyno.results import load_results
from synthetic import ZOO, Contestant, Shape, write_results

EVIL = "</script><script>window.pwned=1</script><img src=x onerror=window.pwned=1>"


def test_running_mean_of_the_last_window() -> None:
    assert running_mean(np.array([1.0, 3, 5, 7]), 2).tolist() == [1, 2, 4, 6]


def test_band_is_median_and_quartiles_and_ended_runs_hold() -> None:
    x = np.array([0.0, 10.0])
    runs = [
        (x, np.array([0.0, 10.0])),
        (x, np.array([0.0, 20.0])),
        (np.array([0.0, 5.0]), np.array([0.0, 30.0])),
    ]
    last = band("a", runs, 3).row(2, named=True)
    assert last == {"contestant": "a", "x": 10.0, "y": 20.0, "low": 15.0, "high": 25.0}
    # Without holding, the third run is gone at x = 10: median of 10 and 20.
    assert band("a", runs, 3, hold=False).row(2, named=True)["y"] == 15.0


def test_band_begins_where_half_of_the_runs_have_a_value() -> None:
    runs = [(np.array([5.0, 10.0]), np.array([1.0, 1.0])), (np.array([10.0]), np.array([1.0]))]
    assert band("a", runs, 3)["x"].to_list() == [5.0, 10.0]


def test_cpu_rate_is_growth_in_percent_of_one_core() -> None:
    time = np.linspace(0.1, 10, 100)
    rates = rate_band("a", [(time, 0.5 * time)], 4)
    assert rates["y"].to_list() == pytest.approx([50.0] * 4)
    assert rates["x"].to_list() == [1.25, 3.75, 6.25, 8.75]


def test_learning_curve_crosses_the_threshold_where_the_run_did(tmp_path: Path) -> None:
    results = load_results(write_results(tmp_path / "r", Shape(algorithms=["dqn"], seeds=1)))
    (group,) = compare(results)
    steps = group_curves(results, group, 100).steps.filter(contestant="numpy:eager")
    reached = results.trials.filter(contestant="numpy:eager")["threshold_steps"][0]
    assert steps["x"][-1] == reached
    assert steps["y"][-1] >= 475 > steps["y"][-3]


def test_embedded_json_cannot_close_its_element() -> None:
    text = embedded_json({"title": EVIL})
    assert "<" not in text
    assert json.loads(text) == {"title": EVIL}


def test_sentence_parts_split_at_backticks() -> None:
    assert sentence_parts("`a:b` won, not `c`.") == [
        (True, "a:b"),
        (False, " won, not "),
        (True, "c"),
        (False, "."),
    ]


def test_flat_names_and_units() -> None:
    assert flat({"machine": {"memory_bytes": 8_000_000_000, "gpus": [], "cores": 2, "x": None}}) == [
        ("machine memory", "8.0 GB"),
        ("machine gpus", "none"),
        ("machine cores", "2"),
        ("machine x", "unknown"),
    ]


def test_one_colour_per_framework_one_dash_per_mode() -> None:
    numpy, eager, compiled, stranger = charts.styles_of(
        ["numpy:eager", "torch:eager", "torch:compile", "new:x"]
    )
    assert eager.colour == compiled.colour != numpy.colour
    assert eager.dash != compiled.dash
    assert eager.shape != compiled.shape
    assert stranger.colour not in (numpy.colour, eager.colour)


ALL_CHARTS = [
    charts.learning_against_steps,
    charts.learning_against_episodes,
    charts.learning_against_time,
    charts.cpu_against_time,
    charts.memory_against_time,
    charts.phases,
    charts.startup,
]


@pytest.mark.parametrize("make", ALL_CHARTS)
def test_every_chart_is_valid_and_has_units(make: object) -> None:
    theme = charts.picture_theme(charts.styles_of(["numpy:eager", "torch:eager"]))
    spec = make(theme).to_dict()  # type: ignore[operator]
    assert spec["description"]
    text = json.dumps(spec)
    assert re.search(r'"title": "(environment steps|episodes|seconds|share of)', text)


def test_a_chart_with_its_rows_becomes_a_picture() -> None:
    import vl_convert

    theme = charts.picture_theme(charts.styles_of(["numpy:eager"]))
    rows = pl.DataFrame(
        {"contestant": "numpy:eager", "x": [0.0, 1.0], "y": [1.0, 2.0], "low": 0.5, "high": 2.5}
    )
    spec = charts.with_rows(charts.cpu_against_time(theme), rows).to_dict()
    svg = vl_convert.vegalite_to_svg(spec)
    assert theme.colours[0] in svg
    assert "% of one core" in svg


def test_report_is_one_file_that_names_no_other(tmp_path: Path) -> None:
    root = write_results(tmp_path / "r", Shape(contestants=ZOO, title=EVIL, algorithms=["dqn"], seeds=2))
    path = write_report(root)
    assert path == root / "report.html"
    html = path.read_text()
    page = re.sub(r"<script>.*?</script>", "", html, flags=re.S)
    assert not re.search(r"""(src|href)\s*=\s*["']?(https?:|//)""", page)
    assert "window.pwned=1</script>" not in html
    assert "&lt;/script&gt;" in page
    for words in ("theano:graph", "is absent", "proof failed", "Traceback", "certificate out of date"):
        assert words in page
    assert "<b>boom</b>" not in page


def test_report_on_half_done_results_says_so(tmp_path: Path) -> None:
    html = write_report(write_results(tmp_path / "r", Shape(pending=5)), tmp_path / "x.html").read_text()
    assert "Half-done." in html
    assert "13 of 18 trials have ended" in html


def test_report_survives_damaged_series(tmp_path: Path) -> None:
    root = write_results(tmp_path / "r", Shape(seeds=1))
    trial = load_results(root).trials["trial"][0]
    (root / "trials" / trial / "samples.csv").write_text("garbage\n1\n")
    (root / "trials" / trial / "episodes.csv").unlink()
    assert f"{trial}/samples.csv:1" in write_report(root).read_text()


def test_report_when_everything_failed(tmp_path: Path) -> None:
    shape = Shape(contestants=[Contestant("torch:eager", 1, outcome="crashed")], algorithms=["dqn"])
    assert "No contestant can be ranked" in write_report(write_results(tmp_path / "r", shape)).read_text()


def test_unwritable_report_is_a_problem(tmp_path: Path) -> None:
    root = write_results(tmp_path / "r", Shape(seeds=1))
    with pytest.raises(Problem, match="cannot write"):
        write_report(root, tmp_path / "nowhere" / "report.html")
