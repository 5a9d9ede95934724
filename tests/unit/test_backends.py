"""Every backend has the same shape: the same names in the same order, and only its own framework."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

import rldyno_rig
from rldyno.toolchains.catalogue import catalogue
from rldyno_rig.identity import backend_files

HOME = Path(rldyno_rig.__file__).parent / "backends"
FOLDERS = [Path(rldyno_rig.__file__).parent / name for name in ("usability", "limits")]
"""Where `x_.py` may import framework x, as in backends."""
BACKENDS = sorted(path for path in HOME.glob("*_.py") if path.name != "__init__.py")
BESIDE = sorted((backend, file) for backend in BACKENDS for file in backend_files(backend)[1:])
"""Files that backends import beside themselves: `x_maths.py` knows framework x, others know none."""
METHODS = ["put", "act", "update", "read", "sync_target", "drain", "state", "load", "forward", "grads"]
# What a backend may import beside its own framework and the rig.
SHARED = {"numpy", "rldyno_rig", "__future__"}
# Compilers that a framework's own mode is made of.
ALLOWED = {"pytensor": {"numba"}}


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def learner(backend: Path) -> ast.ClassDef:
    """Its own, or what it shares with a relative."""
    nodes = (node for file in backend_files(backend) for node in parsed(file).body)
    return next(node for node in nodes if isinstance(node, ast.ClassDef) and node.name == "Learner")


def imported(tree: ast.Module) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add((node.module or "").split(".")[0])
    return names


def framework_of(backend: Path) -> str:
    return next(chain.import_name for chain in catalogue().values() if chain.backend == backend.stem)


def assert_knows_only(path: Path, framework: str | None) -> None:
    names = imported(parsed(path))
    others = {chain.import_name for chain in catalogue().values()} - {"numpy", framework}
    assert not names & others
    foreign = names - SHARED - {framework} - set(sys.stdlib_module_names)
    # Parts of the framework's own distribution, such as jaxlib beside jax.
    own = {name for name in foreign if framework and name.startswith(framework)}
    assert not foreign - own - ALLOWED.get(framework or "", set())


def test_every_contestant_has_a_backend_and_every_backend_a_toolchain() -> None:
    assert {f"{chain.backend}.py" for chain in catalogue().values()} == {path.name for path in BACKENDS}


@pytest.mark.parametrize("path", BACKENDS, ids=lambda path: path.stem)
def test_the_contract_is_in_order(path: Path) -> None:
    tree = parsed(path)
    functions = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    assert [name for name in functions if name in ("facts", "make")] == ["facts", "make"]
    methods = [node.name for node in learner(path).body if isinstance(node, ast.FunctionDef)]
    assert [name for name in methods if name in METHODS] == METHODS


@pytest.mark.parametrize("path", BACKENDS, ids=lambda path: path.stem)
def test_a_backend_knows_one_framework(path: Path) -> None:
    own = framework_of(path)
    assert own in imported(parsed(path))
    assert_knows_only(path, own)


@pytest.mark.parametrize(("backend", "path"), BESIDE, ids=lambda path: path.stem)
def test_files_beside_a_backend_know_its_framework_or_none(backend: Path, path: Path) -> None:
    own = framework_of(backend) if path.stem.startswith(backend.stem) else None
    assert_knows_only(path, own)


def test_every_file_beside_backends_belongs_to_one() -> None:
    files = {path for path in HOME.glob("*.py") if path.name != "__init__.py"}
    assert files == {*BACKENDS, *(path for _, path in BESIDE)}


@pytest.mark.parametrize("path", sorted(HOME.parent.rglob("*.py")), ids=lambda path: path.stem)
def test_only_backends_know_a_framework(path: Path) -> None:
    if path.parent == HOME or (
        path.parent in FOLDERS and path.stem.endswith("_") and path.stem != "__init__"
    ):
        return
    frameworks = {chain.import_name for chain in catalogue().values()} - {"numpy"}
    assert not imported(parsed(path)) & frameworks
