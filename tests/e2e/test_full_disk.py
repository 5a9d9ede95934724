"""A disk that is really full is one message and a fix in commands that write for long or into the cache."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

import pytest
from fakes import rldyno

OWN = ("--toolchain", f"numpy={sys.executable}")


@pytest.fixture
def full_disk(small_disk: Path) -> Path:
    with contextlib.suppress(OSError), (small_disk / "ballast").open("wb", buffering=0) as ballast:
        while True:
            ballast.write(b"0" * 4096)
    return small_disk


SETUP = ("setup", "numpy")
VERIFY = ("verify", "numpy", "--algorithm", "dqn", "--network", "mlp", *OWN)
NETS = ("nets", "--nets", "small", "--contestants", "numpy:eager", "--out", "{}/nets", *OWN)
USABILITY = ("usability", "numpy", "--out", "{}/usability.json", *OWN)


@pytest.mark.parametrize("command", [SETUP, VERIFY, ("limits",), NETS, USABILITY], ids=lambda words: words[0])
def test_a_full_cache(command: tuple[str, ...], full_disk: Path) -> None:
    refused(command, full_disk, full_disk / "cache")


@pytest.mark.parametrize("command", [NETS, USABILITY], ids=lambda words: words[0])
def test_a_full_place_for_results(command: tuple[str, ...], full_disk: Path, tmp_path: Path) -> None:
    refused(command, full_disk, tmp_path / "cache")


def refused(command: tuple[str, ...], full_disk: Path, cache: Path) -> None:
    words = (word.format(full_disk) for word in command)
    done = rldyno(*words, env={**os.environ, "RLDYNO_CACHE_DIR": str(cache)})
    said = done.stdout + done.stderr
    assert done.returncode in (1, 2), said
    assert "No space left on device" in said
    assert str(full_disk) in said
    assert "fix: " in said
    assert "Traceback" not in said
