"""Footprints known beforehand: a leak is measured and named, a buffer that fills up is not one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fakes import PATIENCE_S, Lab, make_trial, outcome_of, start

pytestmark = pytest.mark.alone

MIB = 2**20
RATE = 20


@pytest.fixture(scope="module")
def trials(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Outcomes by behaviour; the workers sleep most of the time, so all run at once."""
    behaviours = {"leaks": f"leaks:{RATE}", "constant": "good:5", "fills": f"fills:{RATE}"}
    directories = {
        name: make_trial(tmp_path_factory.mktemp(name), behaviour) for name, behaviour in behaviours.items()
    }
    runners = {name: start("trial", directory) for name, directory in directories.items()}
    for name, runner in runners.items():
        assert runner.wait(timeout=PATIENCE_S) == 0, name
    return {name: outcome_of(directory) for name, directory in directories.items()}


def test_a_leak_is_measured_and_named(trials: dict[str, dict[str, Any]]) -> None:
    memory = trials["leaks"]["memory"]
    # A block of 0.2 MiB takes up to one page more than it holds: memory grows by up to 2 % more.
    assert memory["growth_low"] < 1.02 * RATE * MIB
    assert memory["growth_high"] > RATE * MIB
    assert memory["growth_bytes_per_s"] == pytest.approx(RATE * MIB, rel=0.1)
    assert memory["leak"] is True
    assert memory["peak_bytes"] - memory["after_import_bytes"] == pytest.approx(RATE * 5 * MIB, rel=0.1)
    (warning,) = trials["leaks"]["warnings"]
    assert warning.startswith("memory leak: the resident set grew by ")


def test_constant_memory_is_no_leak(trials: dict[str, dict[str, Any]]) -> None:
    memory = trials["constant"]["memory"]
    assert memory["growth_low"] <= 0 <= memory["growth_high"]
    assert memory["leak"] is False
    assert trials["constant"]["warnings"] == []
    assert memory["steady_bytes"] == pytest.approx(memory["peak_bytes"], abs=5 * MIB)


def test_a_buffer_that_is_full_is_no_leak(trials: dict[str, dict[str, Any]]) -> None:
    memory = trials["fills"]["memory"]
    assert memory["growth_bytes_per_s"] > 0
    assert memory["leak"] is False
    assert trials["fills"]["warnings"] == []


def test_a_run_names_the_leak_at_its_end(tmp_path: Path) -> None:
    lab = Lab(tmp_path, seeds=1)
    done = lab.run(f"leaks:{RATE}")
    assert done.returncode == 0, done.stderr
    assert f"warning: {lab.trials()[0].name}: memory leak: the resident set grew by" in done.stdout
