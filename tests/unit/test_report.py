from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from rldyno.answers.table import compare
from rldyno.errors import Problem
from rldyno.report import charts, theme, write_report
from rldyno.report.content import gather
from rldyno.report.curves import Band, band, group_curves, quartiles, rate_band
from rldyno.report.data import packed, unpacked
from rldyno.report.page import flat, sentence_parts
from rldyno.report.series import running_mean, use_of
from rldyno.report.write import embedded_json
from rldyno.results.integrals import integral
from rldyno.results.load import load_results
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
    assert unpacked(packed([band("a", runs, 3)]))[2] == {
        "contestant": "a",
        "x": 10.0,
        "y": 20.0,
        "low": 15.0,
        "high": 25.0,
    }
    # Without holding, the third run is gone at x = 10: median of 10 and 20.
    assert band("a", runs, 3, hold=False).y[2] == 15.0


def test_band_begins_where_half_of_the_runs_have_a_value() -> None:
    runs = [(np.array([5.0, 10.0]), np.array([1.0, 1.0])), (np.array([10.0]), np.array([1.0]))]
    assert band("a", runs, 3).x.tolist() == [5.0, 10.0]


def test_cpu_rate_is_growth_in_percent_of_one_core() -> None:
    time = np.linspace(0.1, 10, 100)
    rates = rate_band("a", [(time, 0.5 * time)], 4)
    assert rates.y.tolist() == pytest.approx([50.0] * 4)
    assert rates.x.tolist() == [1.25, 3.75, 6.25, 8.75]


def test_quartiles_are_numpy_s() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(7, 40))
    values[rng.random(values.shape) < 0.3] = np.nan
    values[0] = rng.normal(size=40)
    assert np.allclose(quartiles(values), np.nanquantile(values, [0.25, 0.5, 0.75], axis=0))


def test_integrals_as_liu2022_draws_them() -> None:
    nan = np.nan
    # 10 % until 2 s, then rising to 30 % at 4 s: 20 + 40; the last reading holds until 5 s: 30.
    time_s, percent = np.array([1.0, 2, 3, 4, 5]), np.array([10.0, 10, nan, 30, nan])
    assert integral(time_s, percent) == pytest.approx(90.0)
    assert integral(time_s, np.full(5, nan)) is None
    # The run outlives the last sample by half a second, in which the last reading still holds.
    assert integral(time_s, percent, 5.5) == pytest.approx(105.0)
    nothing = np.full(5, nan)
    samples = {
        "time_ns": time_s * 1e9,
        "machine_cpu_percent": percent,
        "machine_memory_percent": np.full(5, 20.0),
        "gpu_percent": np.array([nan, 50, nan, 70, nan]),
        "gpu_memory_bytes": nothing,
        "gpu_power_w": np.array([100.0, nan, 200, nan, nan]),
        "energy_joules": np.array([nan, 1000, 1200, nan, 1450]),
    }
    use = use_of({"return": np.array([9.0, 11.0, nan])}, samples, run_s=None, steps=20)
    assert use["return_integral"] == 20.0
    assert use["cpu_per_step"] == pytest.approx(4.5)
    assert use["memory_integral"] == pytest.approx(100.0)
    assert use["memory_per_step"] == pytest.approx(5.0)
    assert use["gpu_percent"] == 60.0
    assert use["gpu_memory_mb"] is None
    assert use["power_w"] == 150.0
    assert use["energy_j"] == 450.0


def test_axes_that_vary_have_charts_and_others_have_none(tmp_path: Path) -> None:
    shape = Shape(cores=(1, 4), algorithms=["dqn"], hyper={"batch_size": [32, 64]}, seeds=1, pending=3)
    content = gather(load_results(write_results(tmp_path / "r", shape)))
    labels = [scope.label for scope in content.axes]
    assert labels == [
        "DQN on CartPole-v1, batch_size 32: against CPU cores",
        "DQN on CartPole-v1, batch_size 64: against CPU cores",
        "DQN on CartPole-v1, 1 core: against batch_size",
        "DQN on CartPole-v1, 4 cores: against batch_size",
    ]
    rows = content.axes[0].charts["cpu-cores-speed"]["rows"]
    speed = {(row["contestant"], row["x"]): row["y"] for row in rows}
    assert speed["numpy:eager", 4] > speed["numpy:eager", 1]
    assert [group.setting for group in content.groups] == [
        "1 core, batch_size 32",
        "1 core, batch_size 64",
        "4 cores, batch_size 32",
        "4 cores, batch_size 64",
    ]
    alone = gather(load_results(write_results(tmp_path / "s", Shape(seeds=1))))
    assert alone.axes == ()


def test_learning_curve_crosses_the_threshold_where_the_run_did(tmp_path: Path) -> None:
    results = load_results(write_results(tmp_path / "r", Shape(algorithms=["dqn"], seeds=1)))
    (group,) = compare(results)
    (steps,) = [
        found for found in group_curves(results, group, 100).steps if found.contestant == "numpy:eager"
    ]
    reached = results.trials.filter(contestant="numpy:eager")["threshold_steps"][0]
    assert steps.x[-1] == reached
    assert steps.y[-1] >= 475 > steps.y[-3]


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
    contestants = ["torch:compile", "numpy:eager", "torch:eager", "new:x"]
    stranger, numpy, eager, compiled = theme.styles_of(contestants)
    assert [style.contestant for style in (numpy, eager, compiled)] == [
        "numpy:eager",
        "torch:eager",
        "torch:compile",
    ]
    assert theme.styles_of(contestants[::-1]) == (stranger, numpy, eager, compiled)
    assert eager.colour == compiled.colour != numpy.colour
    assert eager.dash != compiled.dash
    assert eager.shape != compiled.shape
    assert stranger.colour not in (numpy.colour, eager.colour)


def test_every_chart_is_valid_and_has_units(tmp_path: Path) -> None:
    content = gather(load_results(write_results(tmp_path / "r", Shape(cores=(1, 2), seeds=1))))
    plain = theme.picture_theme(content.styles)
    used = {name for scope in content.scopes for name in scope.charts}
    assert used <= content.definitions.keys()
    for name in sorted(used):
        spec = content.definitions[name](plain).to_dict()
        assert spec["description"]
        titles = re.findall(r'"title": "([^"]+)"', json.dumps(spec))
        units = r"steps|episodes|seconds|, s|MB|%|share|score|return|cores|times|, W"
        assert any(re.search(units, title) for title in titles), (name, titles)


def test_a_chart_with_its_rows_becomes_a_picture() -> None:
    import vl_convert

    plain = theme.picture_theme(theme.styles_of(["numpy:eager"]))
    curve = Band(
        "numpy:eager", np.array([0.0, 1]), np.array([1.0, 2]), np.array([0.5, 1]), np.array([2.0, 3])
    )
    rows = unpacked(packed([curve]))
    spec = charts.with_rows(charts.cpu_against_time(plain), rows).to_dict()
    svg = vl_convert.vegalite_to_svg(spec)
    assert plain.colours[0] in svg
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
