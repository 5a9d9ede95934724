"""`rldyno usability` with real frameworks: real mistakes, real files, a real export."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rldyno.records.seal import read_record
from rldyno.toolchains.catalogue import toolchain
from rldyno.toolchains.resolve import resolve
from rldyno.usability import deployment, exports, parallel, visualisation
from rldyno.usability.frameworks import Export, describe

PARTS = ["--part", "install", "--part", "code", "--part", "mistakes", "--part", "save", "--part", "data"]


def test_what_is_measured_is_true_and_kept(tmp_path: Path) -> None:
    given = [f"--toolchain={name}={resolve(name).path}" for name in ("numpy", "torch")]
    command = [sys.executable, "-m", "rldyno", "usability", "numpy", "torch", *PARTS, *given]

    def call(*more: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "RLDYNO_CACHE_DIR": str(tmp_path / "cache"), "COLUMNS": "160"}
        return subprocess.run([*command, *more], capture_output=True, text=True, check=True, env=environment)

    first = call("--json", "-o", str(tmp_path / "out" / "usability.json"))
    found = json.loads(first.stdout)
    # The file has a seal, and the schema of sealed records.
    written = read_record(tmp_path / "out" / "usability.json")
    assert {**written, "schema": found["schema"]} == found
    numpy, torch = (found["frameworks"][name]["parts"] for name in ("numpy", "torch"))

    assert torch["mistakes"]["shape"]["names"] == 2
    assert torch["mistakes"]["dtype"]["type"] == "RuntimeError"
    assert numpy["mistakes"]["dtype"]["verdict"] == "accepted"
    assert numpy["mistakes"]["dtype"]["result"] == "float64"
    for parts in (numpy, torch):
        for loader in parts["data"]["loaders"].values():
            assert loader["each_once"], loader
            assert loader["shuffled"], loader
        assert parts["install"]["install_s"] is None
        assert "yours" in parts["install"]["install_reason"]
        for network in parts["save"]["networks"].values():
            assert network["exact"]
            assert network["file_bytes"] > network["weights_bytes"] > 0
    assert torch["install"]["size_bytes"] > numpy["install"]["size_bytes"]
    assert torch["code"]["transfer_statements"] > numpy["code"]["transfer_statements"] == 0

    names = {path.suffix for path in (tmp_path / "out").iterdir()}
    assert names == {".json", ".md", ".tex", ".csv"}
    second = call()
    assert "measuring" in first.stderr
    assert "measuring" not in second.stderr
    assert "accepted silently: float64" in second.stdout
    assert str(tmp_path) not in first.stdout


def test_an_export_is_run_and_compared(tmp_path: Path) -> None:
    interpreter, chain = resolve("torch"), toolchain("torch")
    found = exports.measure("torchscript", Export(title="TorchScript"), interpreter, chain, tmp_path)
    assert found["works"], found["reason"]
    assert found["networks"]["cnn"]["difference"] <= exports.TOLERANCE


def test_an_export_that_needs_what_nobody_has_fails_with_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RLDYNO_CACHE_DIR", str(tmp_path / "cache"))
    interpreter, chain = resolve("numpy", {"numpy": Path(sys.executable)}), toolchain("numpy")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    path = Export(title="ONNX", packages=("rldyno-has-no-such-package==1.0",))
    found = exports.measure("onnx", path, interpreter, chain, tmp_path)
    assert not found["works"]
    assert "rldyno-has-no-such-package" in found["reason"]
    assert not list((tmp_path / "cache" / "usability" / "packages").iterdir())


def test_a_real_tensorboard_watches_and_reads_all_that_was_written(tmp_path: Path) -> None:
    description = describe("torch_")
    assert description is not None
    assert description.board is not None
    found = visualisation.measure(description.board, resolve("torch"), toolchain("torch"), tmp_path)
    assert found["error"] is None
    assert found["readable"]
    assert found["scalar_cpu_s"] > 0
    assert found["watched_ratio"] > 0
    assert found["server_cpu"] > 0


@pytest.mark.parametrize(("framework", "export"), [("torch", "torchscript"), ("tensorflow", "savedmodel")])
def test_an_exported_policy_serves_without_the_backend(framework: str, export: str, tmp_path: Path) -> None:
    chain = toolchain(framework)
    description = describe(chain.backend)
    assert description is not None
    found = deployment.measure(export, description.exports[export], resolve(framework), chain, tmp_path)
    assert found["works"], found["reason"]
    for network in found["networks"].values():
        assert 0 < network["median_s"] <= network["p99_s"]


def test_two_workers_meet_and_average(tmp_path: Path) -> None:
    chain, interpreter = toolchain("torch"), resolve("torch")
    found = parallel.run_team(chain, interpreter, "eager", "native", tmp_path)
    assert found["error"] is None
    assert found["means"] == "gloo"
    assert found["nanoseconds"] > found["met_ns"] > 0
