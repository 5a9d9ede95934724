"""A study of one's own may name the file of a wheel; records name wheels by their hashes and no files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rldyno.cli import app
from rldyno.errors import Problem
from rldyno.records.seal import SEAL, seal_of
from rldyno.results.check import check_directory
from rldyno.sharing.guest_records import masked_manifest
from rldyno.studies.given import given_study
from synthetic import NUMPY, Shape, write_results

STUDY = """\
# Which build is faster?
contestants = [
    "torch@./dist/torch-2.14-cp311-cp311-linux_x86_64.whl:eager",  # ours
    "torch:eager",
]
algorithms = "dqn"
environments = "CartPole-v1"
seeds = 2
[budget]
steps = 300
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RLDYNO_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    wheel = tmp_path / "dist" / "torch-2.14-cp311-cp311-linux_x86_64.whl"
    wheel.parent.mkdir()
    wheel.write_bytes(b"first")
    return tmp_path / "cache"


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """Results whose records name a file, sealed by whoever wrote them."""
    shape = Shape(contestants=[NUMPY], algorithms=("dqn",), seeds=2, steps=1000, sample_hz=2)
    root = write_results(tmp_path / "foreign", shape)
    manifest = json.loads((root / "manifest.json").read_text())
    manifest |= {"study_text": STUDY, "schema": 2}
    (root / "manifest.json").write_text(json.dumps(manifest | {SEAL: seal_of(manifest)}))
    (root / "study.toml").write_text(STUDY)
    return root


def test_what_is_kept_of_a_study_names_wheels_by_their_hashes(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(STUDY)
    given = given_study(tmp_path / "study.toml")
    assert given.study.contestants[0].startswith("torch@2.14#")
    assert ".whl" not in given.text
    assert given.text.startswith("# Which build is faster?")
    (tmp_path / "again.toml").write_text(given.text)
    (tmp_path / "dist" / "torch-2.14-cp311-cp311-linux_x86_64.whl").write_bytes(b"another build")
    again = given_study(tmp_path / "again.toml")
    assert (again.study.sha256, again.text) == (given.study.sha256, given.text)
    assert given_study(tmp_path / "study.toml").study.sha256 != given.study.sha256


@pytest.mark.parametrize(
    "command",
    [
        ("run", "foreign", "--no-report"),
        ("run", "foreign", "--seeds", "3"),
        ("plan", "foreign"),
        ("plan", "foreign/study.toml"),
        ("check", "foreign", "--repair"),
    ],
    ids=" ".join,
)
def test_a_file_that_a_record_names_is_not_read(command: tuple[str, ...], foreign: Path, cache: Path) -> None:
    if "--repair" in command:
        (foreign / "manifest.json").write_text("{")
    found = CliRunner().invoke(app, command)
    assert isinstance(found.exception, Problem)
    assert "names a file, which is not read" in found.exception.message
    assert "--out DIR" in str(found.exception.fix)
    assert not (cache / "wheels").exists()


def test_reading_results_reads_no_file_that_they_name(foreign: Path, cache: Path) -> None:
    manifest = json.loads((foreign / "manifest.json").read_text())
    masked_manifest(manifest, lambda text: text)
    del manifest[SEAL], manifest["study_text"]  # of schema 1, where the study's copy counts
    (foreign / "manifest.json").write_text(json.dumps(manifest | {"schema": 1}))
    assert any("cannot be checked" in flaw for flaw in check_directory(foreign))
    assert not (cache / "wheels").exists()
