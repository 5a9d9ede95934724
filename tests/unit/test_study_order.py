"""Tables follow the study, whatever the random order in which its trials ran."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from rldyno.answers.analysis import Analysis
from rldyno.report.sections.proof import proof_summary, rung_tables
from rldyno.results.load import load_results
from synthetic import NUMPY, TORCH, Shape, write_results

SHAPE = Shape(
    contestants=(TORCH, NUMPY),
    algorithms=("ppo", "dqn"),
    cores=(2, 1),
    seeds=2,
    sample_hz=2,
    hyper={"batch_size": [64, 32]},
)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The manifest lists the trials backwards, as if they had run so."""
    root = write_results(tmp_path_factory.mktemp("order") / "r", SHAPE)
    study = root / "study.toml"
    text = f"cores = [2, 1]\n{study.read_text()}\n[hyper.dqn]\nbatch_size = [64, 32]\n"
    study.write_text(text)
    path = root / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest |= {"study_text": text, "trials": manifest["trials"][::-1]}
    path.write_text(json.dumps(manifest))
    return root


def test_trials_follow_the_study(root: Path) -> None:
    trials = load_results(root).trials
    for column, expected in (
        ("algorithm", ["ppo", "dqn"]),
        ("cores", [2, 1]),
        ("hyper.batch_size", [64, 32]),
        ("contestant", ["torch:eager", "numpy:eager"]),
    ):
        assert trials[column].unique(maintain_order=True).to_list() == expected
    assert trials["algorithm"].rle().len() == 2, "trials of one algorithm stand together"


def test_comparisons_follow_the_study(root: Path) -> None:
    groups = Analysis.load(root).comparisons
    places = [(g.axes["algorithm"], g.axes["cores"], g.axes["hyper.batch_size"]) for g in groups]
    assert places == [(a, c, b) for a in ("ppo", "dqn") for c in (2, 1) for b in (64, 32)]


def test_proofs_follow_the_study(root: Path) -> None:
    results = load_results(root)
    assert list(proof_summary(results).rows) == ["torch:eager", "numpy:eager"]
    tables = rung_tables(results)
    assert tables[0].label.startswith("PPO")
    assert [row.contestant for row in tables[0].rows] == ["torch:eager", "numpy:eager"]


def test_without_the_study_trials_stay_as_they_are(root: Path, tmp_path: Path) -> None:
    path = root / "manifest.json"
    manifest = json.loads(path.read_text())
    copy = tmp_path / "copy"
    shutil.copytree(root, copy, ignore=shutil.ignore_patterns("study.toml"))
    (copy / "manifest.json").write_text(json.dumps(manifest | {"study_text": ""}))
    assert load_results(copy).trials["trial"].to_list() == manifest["trials"]
