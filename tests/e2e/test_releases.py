"""Releases of a framework, built for real from wheels made here: no network."""

from __future__ import annotations

import json
from pathlib import Path

from test_setup import TOOLCHAIN, Machine, write_wheel


def test_releases_are_built_side_by_side_and_kept_until_they_are_to_go(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    write_wheel(machine.wheels, "1.0")
    write_wheel(machine.wheels, "0.9")
    own = machine.cache.parent / "own"
    own.mkdir()
    write_wheel(own, "1.1.dev1")
    (machine.files / "tiny.toml").write_text(
        TOOLCHAIN.format(version="1.0") + '[versions]\npackages = ["rldyno-tiny"]\n'
    )
    wheel = next(own.iterdir())
    for name in ("tiny", "tiny@0.9", f"tiny@{wheel}"):
        built = machine.run("setup", name)
        assert built.returncode == 0, built.stderr
    names = sorted(path.name.rpartition("-")[0] for path in machine.directories())
    (digits,) = (path.name for path in (machine.cache / "wheels").iterdir())
    assert names == ["tiny-0.9-cpu", f"tiny-1.1.dev1-{digits}-cpu", "tiny-cpu"]
    assert {read_version(path) for path in machine.directories()} == {"0.9", "1.0", "1.1.dev1"}

    listed = machine.run("setup", "--list").stdout
    assert "tiny@0.9    ready" in listed
    assert f"tiny@1.1.dev1#{digits}" in listed
    absent = machine.run("setup", "tiny@0.8")
    assert absent.returncode == 1
    assert "pip finds no rldyno-tiny 0.8" in absent.stderr
    assert "choose from: 0.9, 1.0" in absent.stderr

    assert "nothing to remove" in machine.run("setup", "--prune").stdout
    assert machine.run("setup", "--prune", "--releases", "--yes").returncode == 0
    assert read_version(machine.only_directory()) == "1.0"
    assert not (machine.cache / "wheels").exists()


def read_version(directory: Path) -> str:
    versions = json.loads((directory / "ready.json").read_text())["versions"]
    return str(versions["rldyno-tiny"])
