from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from report_parts import charts_by_panel, labels, material_of, report_of
from rldyno.errors import Problem
from rldyno.report import theme
from rldyno.report.charts import band_chart
from rldyno.report.page import embedded_json, sentence_parts
from rldyno.report.sections import all_sections, resources, scaling, utilisation
from rldyno.report.sections.machine import flat
from rldyno.report.series import Band, Run
from rldyno.results.integrals import integral
from rldyno.results.load import load_results
from rldyno.toolchains.catalogue import read_catalogue
from synthetic import ZOO, Contestant, Shape, write_results

EVIL = "</script><script>window.pwned=1</script><img src=x onerror=window.pwned=1>"


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
    run = Run("t", {"return": np.array([9.0, 11.0, nan])}, samples, {}, window=1, wall_s=None, steps=20)
    use = scaling.RUN_VALUES.of(run) | utilisation.RUN_VALUES.of(run)
    assert use["return_integral"] == 20.0
    assert use["cpu_per_step"] == pytest.approx(4.5)
    assert use["memory_integral"] == pytest.approx(100.0)
    assert use["memory_per_step"] == pytest.approx(5.0)
    assert use["sampled_gpu_percent"] == 60.0
    assert use["sampled_gpu_memory_bytes"] is None
    assert use["sampled_power_w"] == 150.0
    assert use["sampled_energy_joules"] == 450.0
    assert use["final_score"] == 11.0, "of one episode, as many as the goal asks for"


def test_axes_that_vary_have_charts_and_others_have_none(tmp_path: Path) -> None:
    shape = Shape(cores=(1, 4), algorithms=["dqn"], hyper={"batch_size": [32, 64]}, seeds=1, pending=3)
    material = material_of(write_results(tmp_path / "r", shape))
    axes = {panel: label for panel, label in labels(material).items() if panel.startswith("axis-")}
    assert list(axes.values()) == [
        "DQN on CartPole-v1, batch_size 32: against CPU cores",
        "DQN on CartPole-v1, batch_size 64: against CPU cores",
        "DQN on CartPole-v1, 1 core: against batch_size",
        "DQN on CartPole-v1, 4 cores: against batch_size",
    ]
    rows = charts_by_panel(material)["axis-0"]["cpu-cores-steps-per-s"].rows
    speed = {(row["contestant"], row["x"]): row["y"] for row in rows}
    assert speed["numpy:eager", 4] > speed["numpy:eager", 1]
    assert [group.setting for group in material.groups] == [
        "1 core, batch_size 32",
        "1 core, batch_size 64",
        "4 cores, batch_size 32",
        "4 cores, batch_size 64",
    ]
    alone = labels(material_of(write_results(tmp_path / "s", Shape(seeds=1))))
    assert not [panel for panel in alone if panel.startswith("axis-")]


def test_learning_curve_crosses_the_threshold_where_the_run_did(tmp_path: Path) -> None:
    material = material_of(write_results(tmp_path / "r", Shape(algorithms=["dqn"], seeds=1)))
    bands = material.places[0].series.bands["learning-steps"]
    (steps,) = [found for found in bands if found.contestant == "numpy:eager"]
    reached = material.results.trials.filter(contestant="numpy:eager")["threshold_steps"][0]
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


def test_frameworks_that_ship_have_colours_of_their_own_and_others_get_one() -> None:
    shipped = [f"{name}:x" for name, found in read_catalogue().items() if found.kind == "contestant"]
    strangers = ["alpha:x", "beta:x", "torch-next:x"]
    colours = {style.contestant: style.colour for style in theme.styles_of([*shipped, *strangers])}
    assert len(set(colours.values())) == len(colours)
    assert {style.contestant: style.colour for style in theme.styles_of(shipped)}.items() <= colours.items()
    assert theme.styles_of(["beta:x"])[0].colour in theme.OTHER_COLOURS
    assert theme.styles_of(["beta:x"]) == theme.styles_of(["beta:x"])


@pytest.mark.slow
def test_every_chart_is_valid_and_has_units(tmp_path: Path) -> None:
    material = material_of(write_results(tmp_path / "r", Shape(cores=(1, 2), seeds=2)))
    plain = theme.picture_theme(material.styles)
    charts = {name: chart for panel in charts_by_panel(material).values() for name, chart in panel.items()}
    assert {"overview", "learning-time", "memory-split", "phases", "break-even", "noise"} <= charts.keys()
    for name, chart in charts.items():
        assert chart.caption
        spec = chart.altair(plain).to_dict()
        assert spec["description"] == chart.title
        titles = re.findall(r'"title": "([^"]+)"', json.dumps(spec, ensure_ascii=False))
        units = r"steps|episodes|seconds|, s|MB|%|share|score|return|cores|times|, W|µs"
        assert any(re.search(units, title) for title in titles), (name, titles)


def test_every_section_has_its_place_and_its_template() -> None:
    sections = all_sections()
    assert len({section.id for section in sections}) == len({section.order for section in sections})
    folder = Path(resources.__file__).parent
    for section in sections:
        assert (folder / f"{section.id}.py").exists()
        assert (folder / f"{section.id}.html.j2").exists()


@pytest.mark.slow
def test_a_chart_with_its_rows_becomes_a_picture() -> None:
    import altair as alt
    import vl_convert

    plain = theme.picture_theme(theme.styles_of(["numpy:eager", "torch:eager"]))
    curve = Band(
        "numpy:eager", np.array([0.0, 1]), np.array([1.0, 2]), np.array([0.5, 1]), np.array([2.0, 3])
    )
    drawn = band_chart(resources.CURVES[0], [curve]).altair(plain)
    assert isinstance(drawn, alt.LayerChart)
    svg = vl_convert.vegalite_to_svg(drawn.to_dict())
    assert plain.colours[0] in svg
    assert "% of one core" in svg
    # The legend names only those that the chart holds.
    assert "torch:eager" not in svg


@pytest.mark.slow
def test_report_is_one_file_that_names_no_other(tmp_path: Path) -> None:
    root = write_results(tmp_path / "r", Shape(contestants=ZOO, title=EVIL, algorithms=["dqn"], seeds=2))
    path = report_of(root)
    assert path == root / "report.html"
    html = path.read_text()
    page = re.sub(r"<script>.*?</script>", "", html, flags=re.S)
    assert not re.search(r"""(src|href)\s*=\s*["']?(https?:|//)""", page)
    assert "window.pwned=1</script>" not in html
    assert "&lt;/script&gt;" in page
    for words in ("theano:graph", "is absent", "proof failed", "Traceback", "certificate out of date"):
        assert words in page
    assert "<b>boom</b>" not in page


@pytest.mark.slow
def test_report_on_half_done_results_says_so(tmp_path: Path) -> None:
    html = report_of(write_results(tmp_path / "r", Shape(pending=5)), tmp_path / "x.html").read_text()
    assert "Not finished." in html
    assert "13 of 18 trials have ended" in html


@pytest.mark.slow
def test_report_survives_damaged_series(tmp_path: Path) -> None:
    root = write_results(tmp_path / "r", Shape(seeds=1))
    trial = load_results(root).trials["trial"][0]
    (root / "trials" / trial / "samples.csv").write_text("garbage\n1\n")
    (root / "trials" / trial / "episodes.csv").unlink()
    assert f"{trial}/samples.csv:1" in report_of(root).read_text()


def test_report_when_everything_failed(tmp_path: Path) -> None:
    shape = Shape(contestants=[Contestant("torch:eager", 1, outcome="crashed")], algorithms=["dqn"])
    assert "No contestant can be ranked" in report_of(write_results(tmp_path / "r", shape)).read_text()


@pytest.mark.slow
def test_unwritable_report_is_a_problem(tmp_path: Path) -> None:
    root = write_results(tmp_path / "r", Shape(seeds=1))
    with pytest.raises(Problem, match="cannot write"):
        report_of(root, tmp_path / "nowhere" / "report.html")
