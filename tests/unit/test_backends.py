"""Every backend has the same shape: the same names in the same order, and only its own framework."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

import rldyno_rig
from rldyno.toolchains.catalogue import catalogue
from rldyno_rig.algorithms import LEARNERS
from rldyno_rig.identity import backend_files
from rldyno_rig.reference.losses import LOSSES
from rldyno_rig.spec import CATEGORICAL, QUANTILES, SINGLE

HOME = Path(rldyno_rig.__file__).parent / "backends"
FOLDERS = [Path(rldyno_rig.__file__).parent / name for name in ("usability", "limits")]
OPEN = Path(rldyno_rig.__file__).parent / "open"
"""Each framework's files there bear its name: `jax_ppo.py`."""
"""Where `x_.py` may import framework x, as in backends."""
BACKENDS = sorted(path for path in HOME.glob("*_.py") if path.name != "__init__.py")
BESIDE = sorted((backend, file) for backend in BACKENDS for file in backend_files(backend)[1:])
"""Files that backends import beside themselves: `x_maths.py` knows framework x, others know none."""
# Where a learner needs methods of its own for these, they have these names and this order.
PRIVATE = ["_act", "_values", "_update", "_forward", "_gradient", "_gradients", "_pack", "_unpack"]
# The same under other names, as backends once had them.
DIALECTS = {"_flat", "_fill", "_views", "_canonical", "_native", "_to_device", "_to_host", "_grads", "_learn"}
CONTRACT = HOME / "contract.py"
"""Types for the reader and the checker: it computes nothing, so it belongs to no backend's hash."""
METHODS = [
    "put",
    "act",
    "values",
    "update",
    "read",
    "sync_target",
    "drain",
    "state",
    "load",
    "forward",
    "grads",
]
# What a backend's maths is made of, in this order. Other functions may stand between these.
VOCABULARY = [
    "named",
    "forward",
    "convolve",
    "dense",
    "split_noise",
    "q_values",
    "single",
    "categorical",
    "quantiles",
    "policy_and_value",
    "action_values",
    "choose",
    "project",
    "actor_critic_loss",
    "pick",
    "gradient",
    "clip",
    "adam",
    "sgd",
]
LOSS_NAMES = [f"{algorithm}_loss" for algorithm in LOSSES]
"""In the order of the reference."""
# NumPy differentiates by hand: what these do is inside the reference's losses.
IN_THE_REFERENCE = {
    "q_values",
    "single",
    "categorical",
    "quantiles",
    "policy_and_value",
    "actor_critic_loss",
    "pick",
}
EVERYWHERE = {"forward", "dense", "action_values", "choose", *LOSS_NAMES, "clip", "adam", "sgd"}
# What a backend may import beside its own framework and the rig.
SHARED = {"numpy", "rldyno_rig", "__future__"}
# Compilers that a framework's own mode is made of.
ALLOWED = {"pytensor": {"numba", "llvmlite", "jax"}}


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
    return next(chain.top_module for chain in catalogue().values() if chain.backend == backend.stem)


def assert_knows_only(path: Path, framework: str | None) -> None:
    names = imported(parsed(path))
    others = {chain.top_module for chain in catalogue().values()} - {"numpy", framework}
    assert not names & (others - ALLOWED.get(framework or "", set()))
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
    private = [name for name in methods if name in PRIVATE]
    assert private == [name for name in PRIVATE if name in private]
    assert not DIALECTS & {*methods, *functions}


@pytest.mark.parametrize("path", BACKENDS, ids=lambda path: path.stem)
def test_a_backend_knows_one_framework(path: Path) -> None:
    own = framework_of(path)
    assert own in imported(parsed(path))
    assert_knows_only(path, own)


@pytest.mark.parametrize(("backend", "path"), BESIDE, ids=lambda path: path.stem)
def test_files_beside_a_backend_know_its_framework_or_none(backend: Path, path: Path) -> None:
    own = framework_of(backend) if path.stem.startswith(backend.stem) else None
    assert_knows_only(path, own)


def maths_of(backend: Path) -> Path:
    """`x_maths.py`, or the one that relatives share."""
    return next(file for file in backend_files(backend) if file.stem.endswith("_maths"))


MATHS = sorted({maths_of(backend) for backend in BACKENDS})


def defined(path: Path) -> list[str]:
    """Its free functions, in order."""
    return [node.name for node in parsed(path).body if isinstance(node, ast.FunctionDef)]


@pytest.mark.parametrize("path", MATHS, ids=lambda path: path.stem)
def test_the_maths_has_the_same_names_in_the_same_order(path: Path) -> None:
    for vocabulary in (VOCABULARY, LOSS_NAMES):
        names = [name for name in defined(path) if name in vocabulary]
        assert names == [name for name in vocabulary if name in names]


@pytest.mark.parametrize("path", BACKENDS, ids=lambda path: path.stem)
def test_every_backend_has_the_whole_vocabulary(path: Path) -> None:
    found = {name for file in backend_files(path) for name in defined(file)}
    assert (EVERYWHERE if path.stem == "numpy_" else EVERYWHERE | IN_THE_REFERENCE) <= found


@pytest.mark.parametrize("path", MATHS, ids=lambda path: path.stem)
def test_losses_are_free_functions_of_the_same_arguments_found_by_algorithm(path: Path) -> None:
    functions = {node.name: node for node in parsed(path).body if isinstance(node, ast.FunctionDef)}
    for name in LOSS_NAMES:
        assert [argument.arg for argument in functions[name].args.args] == [
            "model",
            "weights",
            "target",
            "batch",
        ]
    wanted = {f"'{algorithm}'": f"{algorithm}_loss" for algorithm in LOSSES}
    assert list(table(path, "LOSSES").items()) == list(wanted.items())
    assert set(LOSSES) == set(LEARNERS)


@pytest.mark.parametrize(
    "path", [path for path in MATHS if path.stem != "numpy_maths"], ids=lambda path: path.stem
)
def test_the_value_of_an_action_is_found_by_the_support_of_the_head(path: Path) -> None:
    assert table(path, "EXPECTED") == {name.upper(): name for name in (SINGLE, CATEGORICAL, QUANTILES)}
    choose = next(node for node in parsed(path).body if getattr(node, "name", "") == "choose")
    assert not any(isinstance(node, ast.Compare) for node in ast.walk(choose)), "it decides at every call"


def table(path: Path, name: str) -> dict[str, str]:
    """A dict at the top level of a file, as it is written."""
    tree = parsed(path)
    found = next(node for node in tree.body if isinstance(node, ast.AnnAssign) and node.target.id == name)
    pairs = zip(found.value.keys, found.value.values, strict=True)
    return {ast.unparse(key): ast.unparse(value) for key, value in pairs}


@pytest.mark.parametrize("path", [*BACKENDS, *MATHS], ids=lambda path: path.stem)
def test_no_backend_switches_on_the_name_of_an_algorithm(path: Path) -> None:
    for node in ast.walk(parsed(path)):
        compared = isinstance(node, ast.Compare) and isinstance(node.left, ast.Attribute)
        assert not (compared and node.left.attr == "algorithm"), ast.unparse(node)


def test_every_file_beside_backends_belongs_to_one() -> None:
    files = {path for path in HOME.glob("*.py") if path.name != "__init__.py"}
    assert files == {*BACKENDS, *(path for _, path in BESIDE), CONTRACT}


@pytest.mark.parametrize("path", sorted(HOME.parent.rglob("*.py")), ids=lambda path: path.stem)
def test_only_backends_know_a_framework(path: Path) -> None:
    if path.parent == HOME or (
        path.parent in FOLDERS and path.stem.endswith("_") and path.stem != "__init__"
    ):
        return
    frameworks = {chain.top_module for chain in catalogue().values()} - {"numpy"}
    if path.parent == OPEN:
        frameworks -= {path.stem.split("_")[0]}
    assert not imported(parsed(path)) & frameworks
