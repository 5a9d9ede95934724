"""`rldyno new-backend`: files that have the shape of every backend, lint, and say what is missing."""

from __future__ import annotations

import importlib
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from test_backends import EVERYWHERE, IN_THE_REFERENCE, LOSS_NAMES, METHODS, VOCABULARY, defined, parsed
from typer.testing import CliRunner

import rldyno_rig.backends
from rldyno.cli import app
from rldyno.errors import Problem
from rldyno.toml import models
from rldyno.toolchains import skeleton
from rldyno.toolchains.catalogue import Toolchain
from rldyno_rig.job_files import ProofJob, ProofSubject
from rldyno_rig.proof import job

ROOT = Path(__file__).parents[2]


@pytest.fixture
def homes(tmp_path: Path) -> dict[str, Path]:
    homes = {"toolchains": tmp_path / "toolchains", "backends": tmp_path / "backends"}
    for home in homes.values():
        home.mkdir()
    return homes


def test_the_toolchain_is_valid_and_pins_what_others_pin(homes: dict[str, Path]) -> None:
    written = skeleton.write_skeleton("zeta", "zeta.core", "zeta-lib[cpu]==1.2", **homes)
    assert [path.name for path in written] == ["zeta.toml", "zeta_.py", "zeta_maths.py"]
    chain = models.load(Toolchain, homes["toolchains"] / "zeta.toml", "a toolchain file")
    assert (chain.framework, chain.import_name, chain.top_module) == ("zeta", "zeta.core", "zeta")
    ((first, *others),) = chain.steps("cpu")
    assert first == "zeta-lib[cpu]==1.2"
    assert [text.partition("==")[0] for text in others] == ["numpy", "gymnasium"]
    assert all("==" in text for text in others)


def test_the_names_are_those_of_every_backend_in_the_same_order(homes: dict[str, Path]) -> None:
    _, backend, maths = skeleton.write_skeleton("zeta", **homes)
    learner = next(node for node in parsed(backend).body if getattr(node, "name", "") == "Learner")
    methods = [node.name for node in getattr(learner, "body", []) if hasattr(node, "args")]
    assert [name for name in methods if name in METHODS] == METHODS
    names = defined(maths)
    for vocabulary in (VOCABULARY, LOSS_NAMES):
        found = [name for name in names if name in vocabulary]
        assert found == [name for name in vocabulary if name in found]
    assert set(names) >= EVERYWHERE | IN_THE_REFERENCE


@pytest.mark.slow
@pytest.mark.parametrize(("name", "module"), [("alpha", "alpha.core"), ("zeta", "zeta")])
def test_the_files_lint_and_have_the_types_of_the_contract(tmp_path: Path, name: str, module: str) -> None:
    source = tmp_path / "src"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "src" / "rldyno_rig", source / "rldyno_rig", ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    written = skeleton.write_skeleton(
        name, module, toolchains=tmp_path, backends=source / "rldyno_rig" / "backends"
    )
    files = [str(path) for path in written[1:]]
    tools = [
        ["ruff", "format", "--check", *files],
        ["ruff", "check", *files],
        ["mypy", "--config-file", "pyproject.toml", *files],
    ]
    for tool in tools:
        done = subprocess.run(
            [sys.executable, "-m", *tool], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_a_proof_names_what_is_missing_and_where(
    homes: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    skeleton.write_skeleton("zeta", package="numpy==1", **homes)
    monkeypatch.setitem(sys.modules, "zeta", ModuleType("zeta"))
    monkeypatch.setattr(rldyno_rig.backends, "__path__", [str(homes["backends"])])
    monkeypatch.setattr(job, "BACKENDS", homes["backends"])
    backend = importlib.import_module("rldyno_rig.backends.zeta_")
    try:
        assert set(backend.facts()["versions"]) == {"numpy"}
        requested = ProofJob("zeta_", "eager", "cpu", ("float64",), (ProofSubject("dqn", "mlp"),))
        proof = job._prove(backend, requested, ProofSubject("dqn", "mlp"))
    finally:
        del sys.modules["rldyno_rig.backends.zeta_"], sys.modules["rldyno_rig.backends.zeta_maths"]
    assert [rung["rung"] for rung in proof["rungs"]] == ["weights"], "layout, load and state work as they are"
    assert proof["error"].startswith("NotImplementedError: forward: torsos of convolutions and dense layers")
    assert "last rung reached: weights, zeta_maths.py line" in proof["error"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["torch"], "called torch already"),
        (["My-Net"], "cannot be the name"),
        (["zeta", "--import", "zeta.1"], "no module"),
        (["zeta", "--package", "=="], "nothing that pip can install"),
    ],
)
def test_names_that_cannot_work_are_refused_before_anything_is_written(
    arguments: list[str], said: str, homes: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    result = CliRunner().invoke(app, ["new-backend", *arguments])
    assert isinstance(result.exception, Problem)
    assert said in result.exception.message


def test_nothing_is_overwritten(homes: dict[str, Path]) -> None:
    (homes["backends"] / "zeta_maths.py").write_text("mine")
    with pytest.raises(Problem, match="exists already"):
        skeleton.write_skeleton("zeta", **homes)
    assert not (homes["toolchains"] / "zeta.toml").exists()
    assert (homes["backends"] / "zeta_maths.py").read_text() == "mine"


@pytest.mark.parametrize("package", ["", "zeta==1.2"])
def test_a_package_that_was_not_given_is_asked_for_first(
    package: str, homes: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    write = skeleton.write_skeleton
    monkeypatch.setattr(skeleton, "write_skeleton", lambda *given: write(*given, **homes))
    said = CliRunner().invoke(app, ["new-backend", "zeta", "--package", package]).output
    assert ("first: name the package" in said) is (package == "")
