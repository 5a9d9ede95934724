"""A device that this machine lacks: one message with a fix, before anything starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fake_nvml import FakeGpu, FakeNvml
from rldyno.cli import app
from rldyno.errors import Problem
from rldyno.machine import devices

STUDY = """
contestants = ["numpy:eager", "torch:eager"]
algorithms = ["dqn"]
environments = ["CartPole-v1"]
devices = ["cpu", "cuda"]
seeds = 1
[budget]
steps = 100
"""


def machine_with(monkeypatch: pytest.MonkeyPatch, nvml: FakeNvml | None, visible: str | None = None) -> None:
    reason = None if nvml else "NVML: NVML Shared Library Not Found"
    monkeypatch.setattr("rldyno.probe.nvml.start_nvml", lambda: (nvml, reason))
    monkeypatch.delenv(devices.HIDDEN, raising=False)
    if visible is not None:
        monkeypatch.setenv(devices.HIDDEN, visible)


def nothing_may_start(*arguments: object, **options: object) -> None:
    raise AssertionError("something was started")


@pytest.mark.parametrize(
    ("arguments", "instead"),
    [
        (["nets", "--contestants", "torch:eager", "--device", "cuda", "--nets", "mlp64"], "--device cuda"),
        (["verify", "torch:eager", "--device", "cuda"], "--device cuda"),
        (["limits", "--device", "cuda"], "--device cuda"),
        (["run", "study.toml"], 'devices = ["cpu"]'),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_a_missing_gpu_is_reported_before_anything_starts(
    arguments: list[str], instead: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RLDYNO_CACHE_DIR", str(tmp_path / "cache"))
    machine_with(monkeypatch, None)
    monkeypatch.setattr("subprocess.Popen", nothing_may_start)
    Path("study.toml").write_text(STUDY)
    done = CliRunner().invoke(app, arguments)
    assert isinstance(done.exception, Problem), done.output
    assert "this machine has no GPU that can be used: NVML" in done.exception.message
    assert "nvidia-smi" in (done.exception.fix or "")
    assert instead in (done.exception.fix or "")
    assert not Path("results", "study", "trials").exists()


def test_a_gpu_that_workers_see_is_enough(monkeypatch: pytest.MonkeyPatch):
    machine_with(monkeypatch, FakeNvml(FakeGpu(), FakeGpu(1)), visible="1")
    devices.check_device("cuda")


def test_hidden_and_broken_gpus_have_their_own_words(monkeypatch: pytest.MonkeyPatch):
    machine_with(monkeypatch, FakeNvml(FakeGpu()), visible="-1")
    with pytest.raises(Problem, match="CUDA_VISIBLE_DEVICES=-1 hides every GPU") as hidden:
        devices.check_device("cuda")
    assert "unset CUDA_VISIBLE_DEVICES" in (hidden.value.fix or "")
    machine_with(monkeypatch, FakeNvml())
    with pytest.raises(Problem, match="the driver lists none"):
        devices.check_device("cuda")
    machine_with(monkeypatch, FakeNvml(FakeGpu(), broken={"nvmlDeviceGetCount": "GPU is lost"}))
    with pytest.raises(Problem, match="GPU is lost"):
        devices.check_device("cuda")


@pytest.mark.parametrize(("status", "usable"), [(0, True), (100, False)])
def test_without_nvml_the_cuda_driver_counts_the_gpus(
    monkeypatch: pytest.MonkeyPatch, status: int, usable: bool
):
    class Cuda:
        def cuInit(self, flags: int) -> int:
            return status

        def cuDeviceGetCount(self, count: Any) -> int:
            count._obj.value = 1
            return 0

    machine_with(monkeypatch, None)
    monkeypatch.setattr("ctypes.CDLL", lambda name: Cuda())
    if usable:
        devices.check_device("cuda")
    else:
        with pytest.raises(Problem, match="no GPU that can be used: NVML"):
            devices.check_device("cuda")


@pytest.mark.parametrize("command", [["nets"], ["verify"], ["limits"]])
def test_an_unknown_device_is_a_problem(command: list[str]):
    done = CliRunner().invoke(app, [*command, "--device", "tpu"])
    assert isinstance(done.exception, Problem)
    assert done.exception.fix == "choose from: cpu, cuda"
