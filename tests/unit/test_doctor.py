from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rldyno.cli import app
from rldyno.doctor import diagnosis as doctor
from rldyno.doctor import spread
from rldyno.doctor.diagnosis import MachineNoise, diagnose, report_toolchain
from rldyno.doctor.spread import spread_of
from rldyno.machine.facts import Calibration
from rldyno.records.machine_facts import MachineFacts
from rldyno.toolchains.catalogue import Need, toolchain

NEED = Need(any_of=("rldyno-no-such-compiler",), modes=("compile",), why="it compiles", fix="install it")


@pytest.fixture(autouse=True)
def bare_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No toolchain, no GPU, an empty config file, and a quick calibration."""
    monkeypatch.setenv("RLDYNO_CACHE_DIR", str(tmp_path / "cache"))
    config = tmp_path / "config.toml"
    config.write_text("")
    monkeypatch.setenv("RLDYNO_CONFIG", str(config))
    monkeypatch.setattr(doctor, "calibrate", lambda repeats, limit_s: Calibration(3_000_000, 0.01))
    monkeypatch.setattr(doctor, "machine_variant", lambda: "cpu")
    monkeypatch.setattr(doctor, "installed_pythons", list)
    return config


def test_missing_toolchains_come_with_the_command() -> None:
    (command,) = (finding.fix for finding in diagnose().findings if "missing toolchains" in finding.problem)
    assert command.startswith("rldyno setup ")
    assert {"numpy", "torch"} <= set(command.split())
    assert "sb3" not in command


def test_a_machine_that_can_build_can_run() -> None:
    assert diagnose().can_run


def test_a_missing_compiler_blocks_its_modes_only() -> None:
    report = report_toolchain(toolchain("torch").model_copy(update={"needs": (NEED,)}))
    assert report.usable_modes == ["eager", "aot"]
    assert any("torch:compile needs rldyno-no-such-compiler" in found.problem for found in report.findings)
    assert any(found.fix == "install it" for found in report.findings)


def test_modes_of_a_gpu_are_not_usable_without_one(monkeypatch: pytest.MonkeyPatch) -> None:
    chain = toolchain("torch").model_copy(update={"needs": ()})
    assert "cudagraph" not in report_toolchain(chain).usable_modes
    monkeypatch.setattr(doctor, "machine_variant", lambda: "cuda")
    monkeypatch.setattr("rldyno.toolchains.resolve.machine_variant", lambda: "cuda")
    assert "cudagraph" in report_toolchain(chain).usable_modes


def test_given_interpreters_are_checked() -> None:
    good = report_toolchain(toolchain("numpy"), {"numpy": Path(sys.executable)})
    assert (good.status, good.usable_modes) == ("given", ["eager"])
    bad = report_toolchain(toolchain("numpy"), {"numpy": Path("/nowhere/python")})
    assert (bad.status, bad.usable_modes) == ("broken", [])
    assert "does not exist" in str(bad.obstacle)


def test_noise_is_a_finding(tmp_path: Path) -> None:
    machine = MachineFacts(memory_available_bytes=8_000_000_000)
    calm = doctor._general_findings(machine, MachineNoise(1, 0.02, 0.0), tmp_path, 10**12, True)
    assert list(calm) == []
    noisy = list(doctor._general_findings(machine, MachineNoise(1, 0.4, 5.0), tmp_path, 10**12, True))
    assert "varies by 40%" in noisy[0].problem
    assert "5.0 %" in noisy[1].problem


def test_steal_that_is_not_counted_is_no_finding(tmp_path: Path) -> None:
    machine = MachineFacts(memory_available_bytes=8_000_000_000)
    assert list(doctor._general_findings(machine, MachineNoise(1, 0.0, None), tmp_path, 10**12, True)) == []


def test_a_wide_spread_is_a_finding() -> None:
    def found(times: list[float]) -> list[str]:
        return [f.problem for f in diagnose(spread=spread_of(times)).findings if "each time" in f.problem]

    assert found([1.0, 1.01, 0.99, 1.0, 1.005]) == []
    assert "10 seeds show differences in speed above" in found([1.0, 1.2, 0.8, 1.1, 0.9])[0]


def test_the_command_says_what_the_machine_can_show(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([0.50, 0.51, 0.49, 0.50, 0.505, 0.495, 0.50, 0.51, 0.49, 0.50])
    monkeypatch.setattr(spread, "_train_once", lambda: next(times))
    shown = CliRunner().invoke(app, ["doctor"]).stdout
    assert "the same training of 0.50 s varies by 1.4% (1.0%–2.6%) over 10 fresh processes" in shown
    assert "differences in speed of 4.4% with 3 seeds, 2.9% with 5" in shown


def test_the_command_prints_json_and_succeeds() -> None:
    result = CliRunner().invoke(app, ["doctor", "--json", "--quick"])
    assert result.exit_code == 0
    values = json.loads(result.stdout)
    assert values["can_run"] is True
    assert {report["name"] for report in values["toolchains"]} >= {"numpy", "torch"}


def test_the_command_fails_where_nothing_can_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("RLDYNO_CACHE_DIR", str(tmp_path / "file" / "cache"))
    result = CliRunner().invoke(app, ["doctor", "--quick"])
    assert result.exit_code == 1
    assert "no contestant can run" in result.stdout
    assert "RLDYNO_CACHE_DIR" in result.stdout
