"""Packages that users add to toolchains: what they mean, and that they are remembered."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rldyno.errors import Problem
from rldyno.toolchains.catalogue import toolchain
from rldyno.toolchains.packages import (
    Package,
    packages_of,
    parse_package,
    remember,
    with_packages,
    without_package,
)
from rldyno.toolchains.store import make_recipe


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RLDYNO_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache" / "toolchains"


def test_names_pins_and_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert parse_package("ale-py==0.11") == Package("ale-py==0.11")
    project = tmp_path / "mine"
    project.mkdir()
    (project / "code.py").write_text("a = 1\n")
    monkeypatch.chdir(tmp_path)
    first = parse_package("./mine")
    assert first.source == str(project)
    assert parse_package("mine") == Package("mine"), "a bare name is a package, as for pip"
    (project / "__pycache__").mkdir()
    (project / "__pycache__" / "code.pyc").write_text("left by Python")
    assert parse_package(str(project)) == first
    (project / "code.py").write_text("a = 2\n")
    changed = parse_package("./mine")
    assert changed.identity != first.identity
    assert changed.key == first.key


@pytest.mark.parametrize("text", ["--upgrade", "./nowhere", "two words", ""])
def test_what_is_neither(text: str) -> None:
    with pytest.raises(Problem, match="neither a package nor a path"):
        parse_package(text)


def test_a_package_replaces_the_one_of_its_name() -> None:
    known = (Package("ale-py==0.10"), Package("other"))
    changed = with_packages(known, [Package("Ale_Py==0.11"), Package("third")])
    assert changed == (Package("Ale_Py==0.11"), Package("other"), Package("third"))
    assert without_package(changed, "ale-py") == (Package("other"), Package("third"))
    assert without_package(changed, "unknown") == changed


def test_remembered_packages_are_part_of_the_build(cache: Path) -> None:
    plain, _ = make_recipe(toolchain("numpy"), "cpu")
    remember("numpy", [Package("ale-py==0.11")])
    assert packages_of("numpy") == (Package("ale-py==0.11"),)
    assert packages_of("torch") == ()
    with_it, _ = make_recipe(toolchain("numpy"), "cpu")
    assert with_it.packages == ("ale-py==0.11",)
    assert with_it.fingerprint != plain.fingerprint
    remember("numpy", [])
    assert json.loads((cache / "packages.json").read_text()) == {}
    assert make_recipe(toolchain("numpy"), "cpu")[0] == plain


def test_a_damaged_memory_is_a_problem(cache: Path) -> None:
    cache.mkdir(parents=True)
    (cache / "packages.json").write_text("{")
    with pytest.raises(Problem, match=r"packages.json is damaged"):
        packages_of("numpy")
