from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from idle_process import idle_process
from rldyno.errors import Problem
from rldyno.toolchains import build as building
from rldyno.toolchains import resolve
from rldyno.toolchains.catalogue import Toolchain, toolchain
from rldyno.toolchains.contents import contents
from rldyno.toolchains.installing import fix_for
from rldyno.toolchains.store import (
    READY_FILE,
    Built,
    Recipe,
    find_built,
    make_recipe,
    pinned_versions,
    python_in,
    read_finished,
    read_ready,
    remove,
    size_of,
    superseded,
)

RECIPE = Recipe("numpy", "cpu", (("numpy==1.0", "--no-deps"),), "3.11.7", ())


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RLDYNO_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache" / "toolchains"


VERSIONS = {"numpy": "1.0", "six": "1.16"}


def pretend_built(recipe: Recipe, built_at: float = 1.0, recorded: bool = True) -> Path:
    """A finished build of this recipe with empty packages. `recorded`: earlier versions kept no contents."""
    python = python_in(recipe.directory)
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    for name, version in VERSIONS.items():
        for folder in (name, f"{name}-{version}.dist-info"):
            (site_packages(recipe.directory) / folder).mkdir(parents=True)
    ready = {
        **({"contents": contents(recipe.directory)} if recorded else {}),
        "recipe": dataclasses.asdict(recipe),
        "versions": VERSIONS,
        "size_bytes": 10,
        "install_s": 2.5,
        "built_at": built_at,
    }
    (recipe.directory / READY_FILE).write_text(json.dumps(ready))
    return recipe.directory


def site_packages(directory: Path) -> Path:
    return directory / "lib" / "python3.11" / "site-packages"


@pytest.mark.parametrize(
    "change",
    [
        {"steps": (("numpy==1.1", "--no-deps"),)},
        {"steps": (("numpy==1.0",), ("--no-deps",))},
        {"variant": "cuda"},
        {"python": "3.11.8"},
        {"pip_args": ("--pre",)},
        {"format": RECIPE.format + 1},
        {"packages": ("my-environment==1",)},
    ],
)
def test_whatever_shapes_the_build_changes_the_fingerprint(change: dict[str, object]) -> None:
    changed = dataclasses.replace(RECIPE, **change)  # type: ignore[arg-type]
    assert changed.fingerprint != RECIPE.fingerprint
    assert changed.directory != RECIPE.directory


def test_a_finished_build_is_read_back() -> None:
    built = read_ready(pretend_built(RECIPE))
    assert built is not None
    assert built.recipe == RECIPE
    assert pinned_versions(built) == {"numpy": "1.0"}


@pytest.mark.parametrize("content", ["", "{", "{}", "[]", '{"recipe": 3}'])
def test_a_torn_ready_file_does_not_count(content: str) -> None:
    directory = pretend_built(RECIPE)
    (directory / READY_FILE).write_text(content)
    assert read_ready(directory) is None


def test_a_build_whose_interpreter_vanished_does_not_count() -> None:
    directory = pretend_built(RECIPE)
    python_in(directory).unlink()
    python_in(directory).symlink_to("/nowhere/python")
    assert read_ready(directory) is None


@pytest.mark.parametrize("name", ["numpy", "numpy-1.0.dist-info", "six-1.16.dist-info"])
def test_a_build_that_lost_a_package_does_not_count(name: str) -> None:
    directory = pretend_built(RECIPE)
    (site_packages(directory) / "__pycache__").mkdir()
    assert read_ready(directory) is not None
    (site_packages(directory) / name).rmdir()
    assert read_ready(directory) is None
    damaged = read_finished(directory)
    assert damaged is not None
    assert damaged.lost == (name,)
    assert damaged.lost_words == f"the numpy toolchain has lost {name}"


def test_of_an_earlier_versions_build_the_metadata_of_its_packages_must_be_there() -> None:
    directory = pretend_built(RECIPE, recorded=False)
    assert read_ready(directory) is not None
    (site_packages(directory) / "six-1.16.dist-info").rmdir()
    damaged = read_finished(directory)
    assert damaged is not None
    assert damaged.lost == ("six",)


def test_what_is_damaged_is_said_and_rebuilt_from_where_its_packages_came_from(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chain = toolchain("numpy")
    recipe, _ = make_recipe(chain, "cpu", ["--no-index"])
    directory = pretend_built(recipe)
    (site_packages(directory) / "numpy").rmdir()
    assert resolve.state(chain).status == "damaged"
    with pytest.raises(Problem, match="is damaged: it has lost a package"):
        resolve.resolve("numpy")
    asked = []

    def build(chain: Toolchain, variant: str, pip_args: Sequence[str], *_: object) -> Built:
        asked.append(tuple(pip_args))
        raise Problem("stop here")

    monkeypatch.setattr(resolve, "build", build)
    with pytest.raises(Problem, match="stop here"):
        resolve.ensure(["numpy"])
    assert asked == [("--no-index",)]


def test_a_damaged_toolchain_that_is_in_use_is_not_rebuilt() -> None:
    chain = toolchain("numpy")
    directory = pretend_built(make_recipe(chain, "cpu")[0])
    (site_packages(directory) / "numpy").rmdir()
    with idle_process(python_in(directory)) as worker:
        with pytest.raises(Problem, match=r"has lost numpy, and something still runs in it"):
            building.build(chain, "cpu")
        assert worker.poll() is None


def test_a_build_made_with_other_pip_arguments_serves() -> None:
    chain = toolchain("numpy")
    recipe, _ = make_recipe(chain, "cpu", ["--no-index"])
    assert find_built(chain, "cpu") is None
    directory = pretend_built(recipe)
    found = find_built(chain, "cpu")
    assert found is not None
    assert found.directory == directory
    plain, _ = make_recipe(chain, "cpu")
    pretend_built(plain, built_at=0.0)
    exact = find_built(chain, "cpu")
    assert exact is not None
    assert exact.directory == plain.directory


def test_a_build_of_other_pins_does_not_serve() -> None:
    chain = toolchain("numpy")
    recipe, _ = make_recipe(chain, "cpu")
    pretend_built(dataclasses.replace(recipe, steps=(("numpy==1.0",),)))
    assert find_built(chain, "cpu") is None


def test_only_what_nothing_uses_is_offered_for_removal(cache: Path) -> None:
    used = pretend_built(RECIPE)
    old = pretend_built(dataclasses.replace(RECIPE, python="3.10.1"))
    unfinished = cache / "numpy-cpu-000000000000"
    unfinished.mkdir()
    (cache / "logs").mkdir()
    current = read_ready(used)
    assert current is not None
    assert superseded([current]) == sorted([old, unfinished])
    remove(old)
    assert not old.exists()


def test_a_toolchain_in_use_is_not_removed() -> None:
    directory = pretend_built(RECIPE)
    with idle_process(python_in(directory)):
        with pytest.raises(Problem, match="is in use"):
            remove(directory)
        assert read_ready(directory) is not None


def test_sizes_add_up(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "one").write_bytes(b"x" * 100)
    (tmp_path / "a" / "b" / "two").write_bytes(b"x" * 23)
    (tmp_path / "a" / "loop").symlink_to(tmp_path)
    link = (tmp_path / "a" / "loop").lstat().st_size
    assert size_of(tmp_path / "a") == 123 + link
    assert size_of(tmp_path / "absent") == 0


@pytest.mark.parametrize(
    ("log", "fix"),
    [
        ("ERROR: Could not install: [Errno 28] No space left on device", "RLDYNO_CACHE_DIR"),
        ("NewConnectionError(...)\nERROR: No matching distribution found for numpy", "--find-links"),
        ("ERROR: Could not find a version that satisfies numpy (from versions: none)", "--find-links"),
        ("Command '[... -m ensurepip ...]' returned non-zero exit status 1", "python3-venv"),
        ("$ python -m pip install x\nERROR: boom", "--toolchain numpy="),
    ],
)
def test_the_fix_fits_the_failure(log: str, fix: str) -> None:
    assert fix in fix_for(log, building.place_of(RECIPE))


def test_a_full_disk_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "mkdir", full)
    with pytest.raises(Problem, match="No space left on device") as raised:
        building.build(toolchain("numpy"), "cpu")
    assert "more space" in str(raised.value.fix)


def test_a_cache_below_a_file_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("RLDYNO_CACHE_DIR", str(tmp_path / "file" / "cache"))
    with pytest.raises(Problem, match="cannot build the numpy toolchain") as raised:
        building.build(toolchain("numpy"), "cpu")
    assert "RLDYNO_CACHE_DIR" in str(raised.value.fix)
