"""Two results directories in one picture."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rldyno.answers.analysis import Analysis
from rldyno.cli import app
from rldyno.report.section import Chart
from rldyno.report.systems import both, system_panels
from synthetic import NUMPY, TORCH, Contestant, Shape, write_results

SLOWER = replace(NUMPY, steps_per_s=NUMPY.steps_per_s / 3)


def system(path: Path, *contestants: Contestant, **shape: Any) -> Analysis:
    settings = {"algorithms": ["ppo"], "seeds": 2, "sample_hz": 2, "steps": 6000} | shape
    return Analysis.load(write_results(path, Shape(contestants=contestants, **settings)))


def charts(first: Analysis, second: Analysis) -> dict[str, Chart]:
    (panel,) = system_panels(both(first, second))
    return {chart.id: chart for chart in panel.charts}


def test_curves_and_values_of_both_stand_in_one_picture_and_are_not_pooled(tmp_path: Path) -> None:
    drawn = charts(system(tmp_path / "old", NUMPY, TORCH), system(tmp_path / "new", SLOWER))
    curves = {(row["contestant"], row["part"]) for row in drawn["systems-learning-time"].rows}
    # What ran on one system only is not drawn.
    assert curves == {("numpy:eager", "A: old"), ("numpy:eager", "B: new")}
    first, second = drawn["systems-speed"].rows
    assert (first["label"], second["label"]) == ("numpy:eager, A: old", "numpy:eager, B: new")
    assert first["value"] == pytest.approx(3 * second["value"], rel=0.3)
    assert "A: old: Linux 6.1, Example CPU" in drawn["systems-speed"].caption
    assert {"systems-machine-cpu", "systems-machine-memory", "systems-learning-episodes"} <= drawn.keys()


def test_other_settings_are_other_computations(tmp_path: Path) -> None:
    one = system(tmp_path / "a", NUMPY, hyper={"batch_size": [32]})
    other = system(tmp_path / "b", NUMPY, hyper={"batch_size": [64]})
    assert system_panels(both(one, other)) == []


def test_the_command_writes_the_pictures_and_keeps_its_exit_code(tmp_path: Path) -> None:
    system(tmp_path / "a", NUMPY)
    system(tmp_path / "b", NUMPY)
    out = tmp_path / "out"
    arguments = ["compare", str(tmp_path / "a"), str(tmp_path / "b"), "--figures", str(out)]
    done = CliRunner().invoke(app, [*arguments, "--format", "csv"])
    plain = CliRunner().invoke(app, arguments[:3])
    assert done.exit_code == plain.exit_code
    assert f"{out}/index.md: " in done.output
    with (out / "ppo-on-cartpole-v1--systems-learning-episodes.csv").open() as file:
        assert {row["part"] for row in csv.DictReader(file)} == {"A: a", "B: b"}
