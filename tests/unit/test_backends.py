"""Every backend has the same shape: the same names in the same order, and only its own framework."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

import rldyno_rig
from rldyno.toolchains.catalogue import catalogue

HOME = Path(rldyno_rig.__file__).parent / "backends"
FOLDERS = [Path(rldyno_rig.__file__).parent / name for name in ("usability", "limits")]
"""Where `x_.py` may import framework x, as in backends."""
BACKENDS = sorted(path for path in HOME.glob("*_.py") if path.name != "__init__.py")
METHODS = ["put", "act", "update", "read", "sync_target", "drain", "state", "load", "forward", "grads"]
# What a backend may import beside its own framework and the rig.
SHARED = {"numpy", "rldyno_rig", "__future__"}
# Compilers that a framework's own mode is made of.
ALLOWED = {"pytensor": {"numba"}}


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def learner(tree: ast.Module) -> ast.ClassDef:
    return next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Learner")


def imported(tree: ast.Module) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add((node.module or "").split(".")[0])
    return names


def test_every_contestant_has_a_backend_and_every_backend_a_toolchain() -> None:
    assert {f"{chain.backend}.py" for chain in catalogue().values()} == {path.name for path in BACKENDS}


@pytest.mark.parametrize("path", BACKENDS, ids=lambda path: path.stem)
def test_the_contract_is_in_order(path: Path) -> None:
    tree = parsed(path)
    functions = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    assert [name for name in functions if name in ("facts", "make")] == ["facts", "make"]
    methods = [node.name for node in learner(tree).body if isinstance(node, ast.FunctionDef)]
    assert [name for name in methods if name in METHODS] == METHODS


@pytest.mark.parametrize("path", BACKENDS, ids=lambda path: path.stem)
def test_a_backend_knows_one_framework(path: Path) -> None:
    frameworks = {chain.import_name for chain in catalogue().values()} - {"numpy"}
    own = next(chain.import_name for chain in catalogue().values() if chain.backend == path.stem)
    names = imported(parsed(path))
    assert not names & (frameworks - {own})
    assert own in names
    foreign = names - SHARED - {own} - set(sys.stdlib_module_names)
    # Parts of the framework's own distribution, such as jaxlib beside jax.
    assert all(name.startswith(own) or name in ALLOWED.get(own, set()) for name in foreign), foreign


@pytest.mark.parametrize("path", sorted(HOME.parent.rglob("*.py")), ids=lambda path: path.stem)
def test_only_backends_know_a_framework(path: Path) -> None:
    if path.parent == HOME or (
        path.parent in FOLDERS and path.stem.endswith("_") and path.stem != "__init__"
    ):
        return
    frameworks = {chain.import_name for chain in catalogue().values()} - {"numpy"}
    assert not imported(parsed(path)) & frameworks
