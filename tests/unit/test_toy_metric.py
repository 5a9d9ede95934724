"""A figure is described once: a toy metric, defined in this file alone, is seen wherever figures are."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

from report_parts import charts_by_panel, material_of
from rldyno.answers.analysis import Analysis
from rldyno.answers.changes import compare_results
from rldyno.claims.decide import judge_claim
from rldyno.claims.effects import HOLDS
from rldyno.claims.evidence import gather
from rldyno.claims.form import Claim
from rldyno.claims.show import lines
from rldyno.columns import Column
from rldyno.results.columns import register
from rldyno.results.export import export_results
from rldyno.results.load import load_results
from synthetic import NUMPY, TORCH, Shape, write_results

TOY = Column(
    "toy",
    float,
    "wheels that fell off",
    title="Wheels lost",
    unit="wheels",
    better="lower",
    source="toys.wheels",
    missing="the toy has no wheels",
    charted=True,
)
WHEELS = {"numpy:eager": 2.0, "torch:eager": 6.0}


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    shape = Shape(contestants=[NUMPY, TORCH], algorithms=["dqn"], seeds=6)
    root = write_results(tmp_path_factory.mktemp("toy") / "r", shape)
    for path in root.glob("trials/*/outcome.json"):
        trial = json.loads((path.parent / "trial.json").read_text())
        wheels = WHEELS[trial["contestant"]] + 0.1 * trial["seed"]
        outcome = json.loads(path.read_text())
        outcome["toys"] = {"wheels": None if trial["seed"] == 5 else wheels}
        path.write_text(json.dumps(outcome))
    return root


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    with register(TOY):
        yield


def test_it_is_a_column_of_the_results_and_says_why_it_is_empty(directory: Path) -> None:
    results = load_results(directory)
    assert results.trials.filter(contestant="numpy:eager")["toy"].min() == 2.0
    assert results.why_empty("toy") == "the toy has no wheels"


def test_it_is_exported_and_explained(directory: Path, tmp_path: Path) -> None:
    export_results(load_results(directory), tmp_path / "export")
    assert pl.read_parquet(tmp_path / "export" / "trials.parquet")["toy"].max() == 6.4
    assert "| `toy` | wheels that fell off |" in (tmp_path / "export" / "README.md").read_text()


def test_a_claim_can_be_about_it(directory: Path) -> None:
    check = {"kind": "ratio", "metric": "toy", "a": {"framework": "torch"}, "b": {"framework": "numpy"}}
    claim = Claim.model_validate({"id": "t", "statement": "s", "check": [check | {"at_least": 2.0}]})
    found = judge_claim(claim, gather([load_results(directory)]))
    assert found.verdict == HOLDS
    assert "wheels lost" in lines(found)[0]


def test_it_is_a_goal_of_advice(directory: Path) -> None:
    (found,) = Analysis.load(directory).advice("toy")
    (pick,) = found.picks
    assert (pick.contestant, pick.metric) == ("numpy:eager", TOY)


def test_the_report_draws_it(directory: Path) -> None:
    panels = charts_by_panel(material_of(directory))
    (chart,) = [charts["toy"] for charts in panels.values() if "toy" in charts]
    assert chart.title == "Wheels lost"
    assert {row["contestant"]: row["value"] for row in chart.rows} == {"numpy:eager": 2.2, "torch:eager": 6.2}


def test_two_results_are_compared_by_it(directory: Path) -> None:
    analysis = Analysis.load(directory)
    changes = compare_results(analysis, analysis, metrics=["toy"]).changes
    assert {change.metric for change in changes} == {TOY}


def test_a_name_is_registered_once() -> None:
    with pytest.raises(ValueError, match="registered already: toy"), register(TOY):
        pass
