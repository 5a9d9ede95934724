"""Floors against arithmetic done by hand, and the machine's limits."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from rldyno.answers.limits import distances
from rldyno.cli import app
from rldyno.errors import Problem
from rldyno.limits import host, measure, study
from rldyno.limits.disturbance import Watch, any_is_busy, warnings
from rldyno.limits.floor import (
    ACT,
    ARITHMETIC,
    MEMORY,
    TRANSFER,
    Limits,
    batch_bytes,
    floor,
    flops,
    memory_bytes,
)
from rldyno.limits.trials import MachineLimits
from rldyno.processes.rig import Ended, Runtime
from rldyno.records.manifest import Manifest
from rldyno.results.load import load_results
from rldyno.session import session as run
from rldyno_rig import hyper
from rldyno_rig.algorithms import ALGORITHMS, LEARNERS
from rldyno_rig.algorithms.dqn import Dqn
from rldyno_rig.limits import job as rig_limits
from rldyno_rig.spec import Spec
from synthetic import NUMPY, TORCH, Shape, write_results

# Multiply-adds of stooke2017's small network with 10 outputs, layer by layer.
CONV0 = 20 * 20 * 16 * (8 * 8 * 4)
CONV1 = 9 * 9 * 32 * (4 * 4 * 16)
DENSE = (9 * 9 * 32) * 512
OUT = 512 * 10
SMALL = CONV0 + CONV1 + DENSE + OUT
SMALL_WEIGHTS = (8 * 8 * 4 * 16 + 16) + (4 * 4 * 16 * 32 + 32) + (2592 * 512 + 512) + (512 * 10 + 10)
CPU = Limits("cpu", 1, {"float32": 1e9}, 1e9, None)


def dqn(**changes: object) -> Spec:
    values = dataclasses.replace(Dqn(), convolutions=hyper.CNN_SMALL, hidden=(512,), **changes)
    return LEARNERS["dqn"].spec(values, (4, 84, 84), "uint8", 10)


def mlp(algorithm: str, **changes: object) -> Spec:
    values = dataclasses.replace(ALGORITHMS[algorithm].hyper(), hidden=(64, 64), **changes)
    return LEARNERS[algorithm].spec(values, (4,), "float32", 2)


def test_flops_of_a_convolutional_network():
    assert flops(dqn(), 16, ACT) == 2 * 16 * SMALL
    trained = 3 * SMALL - CONV0
    assert flops(dqn(), 128, "update") == 2 * 128 * (trained + SMALL)
    assert flops(dqn(double=True), 128, "update") == 2 * 128 * (trained + 2 * SMALL)


def test_flops_of_two_torsos():
    one = 4 * 64 + 64 * 64
    whole = 2 * one + 64 * 2 + 64 * 1
    assert flops(mlp("ppo"), 1, ACT) == 2 * whole
    assert flops(mlp("ppo"), 8, "update") == 2 * 8 * (3 * whole - 2 * 4 * 64)
    shared = one + 64 * 2 + 64 * 1
    assert flops(mlp("a2c", shared=True), 1, "update") == 2 * (3 * shared - 4 * 64)


def test_bytes_of_an_update():
    """Weights twice, both moments twice, the target's once; two images and three numbers per transition."""
    batch = 2 * 128 * 4 * 84 * 84 + 128 * 3 * 4
    assert batch_bytes(dqn(), 128, "float32", "update") == batch
    assert memory_bytes(dqn(), 128, "float32", "update") == 7 * SMALL_WEIGHTS * 4 + batch
    assert memory_bytes(dqn(), 16, "float32", ACT) == SMALL_WEIGHTS * 4 + 16 * 4 * 84 * 84
    weights = 2 * ((4 * 64 + 64) + (64 * 64 + 64)) + (64 * 2 + 2) + (64 + 1)
    assert memory_bytes(mlp("ppo"), 32, "float64", "update") == 6 * weights * 8 + 32 * 4 * 4 + 32 * 5 * 8


def test_noise_and_noisy_weights_count_for_rainbow():
    spec = mlp("rainbow", atoms=51)
    layers = ((4, 64), (64, 64), (64, 51), (64, 2 * 51))
    noise = sum(inputs + outputs for inputs, outputs in layers)
    assert batch_bytes(spec, 32, "float32", "update") == 2 * 32 * 16 + (32 * 4 + 3 * noise) * 4
    weights = 2 * sum(inputs * outputs + outputs for inputs, outputs in layers)
    assert memory_bytes(spec, 32, "float32", ACT) == weights * 4 + 32 * 16


def test_the_tightest_bound_is_named():
    seconds, bound = floor(dqn(), 128, CPU)  # type: ignore[misc]
    assert (seconds, bound) == (flops(dqn(), 128, "update") / 1e9, ARITHMETIC)
    slow_memory = dataclasses.replace(CPU, copy_bytes_per_s=1e3)
    assert floor(dqn(), 128, slow_memory) == (memory_bytes(dqn(), 128, "float32", "update") / 1e3, MEMORY)
    gpu = Limits("cuda", 1, {"float32": 1e15}, 1e15, 1e3)
    assert floor(dqn(), 16, gpu, measure=ACT) == (16 * 4 * 84 * 84 / 1e3, TRANSFER)
    assert floor(dqn(), 16, gpu, measure=ACT, copied=False).bound != TRANSFER  # type: ignore[union-attr]


def test_what_was_not_measured_gives_no_floor():
    assert floor(dqn(), 1, CPU, dtype="tf32") is None
    assert floor(dqn(), 1, dataclasses.replace(CPU, copy_bytes_per_s=None)) is None
    assert floor(dqn(), 1, dataclasses.replace(CPU, device="cuda")) is None


@pytest.mark.parametrize("algorithm", sorted(ALGORITHMS))
def test_every_algorithm_has_a_floor(algorithm: str):
    found = floor(mlp(algorithm), 32, CPU)
    assert found is not None
    assert found.seconds > 0


FACTS = {"observation_shape": [4], "actions": 2}
MANIFEST_LIMITS = {
    "devices": [
        {
            "device": "cpu",
            "cores": 1,
            "flops_per_s": {"float32": 1e9},
            "copy_bytes_per_s": 1e9,
            "transfer_bytes_per_s": None,
        }
    ],
    "environments": [
        {"environment": "CartPole-v1", "environments": 1, "max_episode_steps": None, "steps_per_s": 1e5}
    ],
}


def asked_of(**changes: object) -> dict[str, object]:
    asked = {
        "algorithm": "dqn",
        "environment": "CartPole-v1",
        "max_episode_steps": None,
        "device": "cpu",
        "cores": 1,
        "dtype": "float32",
        "hyper": hyper.to_json(Dqn(hidden=(64, 64), batch_size=32)),
    }
    return {**asked, **changes}


ROW = {"updates": 100, "phase_update_s": 0.07, "phase_transfer_s": 0.02, "phase_read_s": 0.01}


def test_a_trial_is_held_against_its_machine():
    figures = MachineLimits(MANIFEST_LIMITS).figures(asked_of(), FACTS, ROW)
    whole = 4 * 64 + 64 * 64 + 64 * 2
    floor_us = 2 * 32 * (4 * whole - 4 * 64) / 1e9 * 1e6
    assert figures["update_us"] == pytest.approx(1000.0)
    assert figures["update_floor_us"] == pytest.approx(floor_us)
    assert figures["update_floor_bound"] == ARITHMETIC
    assert figures["update_over_floor"] == pytest.approx(1000.0 / floor_us)
    assert figures["environment_alone_steps_per_s"] == 1e5


@pytest.mark.parametrize(
    ("asked", "facts", "limits"),
    [
        (asked_of(), FACTS, None),
        (asked_of(), None, MANIFEST_LIMITS),
        (asked_of(cores=2), FACTS, MANIFEST_LIMITS),
        (asked_of(device="cuda"), FACTS, MANIFEST_LIMITS),
        (asked_of(hyper={"gone": 1}), FACTS, MANIFEST_LIMITS),
    ],
)
def test_what_is_not_known_is_empty(asked: dict[str, object], facts: object, limits: object):
    figures = MachineLimits(limits).figures(asked, facts, ROW)  # type: ignore[arg-type]
    assert figures["update_us"] == pytest.approx(1000.0)
    assert figures["update_floor_us"] is figures["update_over_floor"] is figures["update_floor_bound"] is None


def test_what_is_empty_says_why():
    held = MachineLimits(MANIFEST_LIMITS)
    assert held.reasons(held.figures(asked_of(), FACTS, ROW)) == {}
    nothing = MachineLimits(None).figures(asked_of(), FACTS, {})
    assert set(MachineLimits.reasons(nothing)) == set(nothing)
    assert "not measured" in MachineLimits.reasons(nothing)["update_floor_us"]


def test_a_trial_without_updates_has_no_update_time():
    assert (
        MachineLimits(MANIFEST_LIMITS).figures(asked_of(), FACTS, {**ROW, "updates": 0})["update_us"] is None
    )
    assert MachineLimits(MANIFEST_LIMITS).figures(asked_of(), FACTS, {"updates": None})["update_us"] is None


def test_distances_of_a_results_directory(tmp_path: Path):
    shape = Shape(contestants=[NUMPY, TORCH], algorithms=["dqn"], seeds=3, sample_hz=1, steps=8000)
    root = write_results(tmp_path / "results", shape)
    assert distances(load_results(root)) == []
    path = root / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "limits": MANIFEST_LIMITS}))
    results = load_results(root)
    found = distances(results)
    assert {one.contestant for one in found} == {"numpy:eager", "torch:eager"}
    assert [one.multiple.point for one in found] == sorted(one.multiple.point for one in found)
    for one in found:
        assert one.multiple.point == pytest.approx(one.update_us.point / one.floor_us)
        assert one.axes["algorithm"] == "dqn"
        assert one.multiple.n == 3


def test_limits_are_measured_once_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("RLDYNO_CACHE_DIR", str(tmp_path))
    said = {"flops_per_s": {"float32": 5e9}, "copy_bytes_per_s": 1e9}
    host_rates = measure._host_rates
    calls: list[list[str]] = []

    def printed(command: list[str], directory: Path, runtime: Runtime, **options: object) -> Ended:
        calls.append(command)
        assert runtime.variables["OMP_NUM_THREADS"] == command[-1]
        return Ended(0, 1.0, json.dumps(said), "")

    busy_machine(monkeypatch, 0.0, 0.0, 0.0)
    monkeypatch.setattr(measure, "_host_rates", host_rates)
    monkeypatch.setattr(measure, "run", printed)
    first = measure.limits_of("cpu", 1)
    assert first == measure.limits_of("cpu", 1)
    assert len(calls) == 1
    assert first["flops_per_s"] == {"float32": 5e9}
    assert first["transfer_bytes_per_s"] is None
    assert "transfer_bytes_per_s" in first["reasons"]
    said["flops_per_s"]["float32"], said["copy_bytes_per_s"] = 4e9, 2e9
    again = measure.limits_of("cpu", 1, again=True)
    assert (again["flops_per_s"]["float32"], again["copy_bytes_per_s"]) == (5e9, 2e9)
    said["flops_per_s"]["float32"] = 1e9
    both = measure.limits_of("cpu", 2)
    assert len(calls) == 3
    assert both["flops_per_s"]["float32"] == 5e9, "two cores can do what one can"


def busy_machine(monkeypatch: pytest.MonkeyPatch, *taken: float) -> None:
    """Others take these percentages of the CPUs, one measurement after the other."""
    percentages = iter(taken)

    class FakeWatch(Watch):
        def __exit__(self, *exception: object) -> None:
            self.taken_percent = next(percentages)

    monkeypatch.setattr(measure, "Watch", FakeWatch)
    monkeypatch.setattr(
        measure, "_host_rates", lambda cores: {"flops_per_s": {"float32": 5e9}, "copy_bytes_per_s": 1e9}
    )


def test_a_limit_of_a_busy_machine_says_so_until_it_was_measured_quietly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("RLDYNO_CACHE_DIR", str(tmp_path))
    busy_machine(monkeypatch, 40.0, 60.0, 3.0, 60.0)
    (line,) = warnings([measure.limits_of("cpu", 1)])
    assert "others used 40 %" in line
    assert warnings([measure.limits_of("cpu", 1)]) == [line], "measured again, but no quieter"
    assert warnings([measure.limits_of("cpu", 1)]) == []
    assert warnings([measure.limits_of("cpu", 1, again=True)]) == [], "the quiet one vouches for the better"


def test_a_quiet_core_does_not_vouch_for_two_busy_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("RLDYNO_CACHE_DIR", str(tmp_path))
    busy_machine(monkeypatch, 1.0, 50.0)
    assert warnings([measure.limits_of("cpu", 1)]) == []
    (line,) = warnings([measure.limits_of("cpu", 2)])
    assert "cpu with 2 cores" in line


def test_a_neighbour_is_seen_while_limits_are_measured():
    """A process of somebody else's on the same CPU takes half of it; our own children take nothing."""
    cpu = min(os.sched_getaffinity(0))
    burn = """
import os, sys, time
os.sched_setaffinity(0, {int(sys.argv[1])})
end = time.monotonic() + float(sys.argv[2])
while time.monotonic() < end:
    pass
"""
    command = [sys.executable, "-c", burn, str(cpu)]
    neighbour = subprocess.Popen([*command, "60"])
    try:
        with Watch([cpu]) as watch:
            subprocess.run([*command, "1.2"], check=True)
    finally:
        neighbour.kill()
        neighbour.wait()
    assert watch.taken_percent is not None
    assert watch.taken_percent > 30.0


@pytest.mark.parametrize(("to_run", "taken", "asked"), [(True, 0.0, 1), (False, 0.0, 0), (False, 40.0, 1)])
def test_a_finished_study_takes_over_limits_that_were_measured_again(
    to_run: bool, taken: float, asked: int, monkeypatch: pytest.MonkeyPatch
):
    measured: list[object] = []
    monkeypatch.setattr(study, "study_limits", lambda *a: measured.append(a) or {"devices": ["better"]})
    monkeypatch.setattr(run, "idle_cpu_percent", lambda: 1.0)
    before = {"devices": [{"taken_percent": taken}], "environments": []}
    session = SimpleNamespace(
        options=run.Options(),
        plan=None,
        contestants_to_run={"numpy:eager"} if to_run else set(),
        manifest=Manifest(limits=before),
        print_line=print,
        directory=SimpleNamespace(write_manifest=lambda manifest: None),
    )
    run.Session.measure_machine(session)  # type: ignore[arg-type]  # only what this step uses
    assert len(measured) == asked
    assert (session.manifest.limits != before) == bool(asked)
    assert (session.manifest.idle_cpu_percent is not None) == to_run, "before the trials, not after"


def test_limits_of_older_records_are_not_accused():
    assert warnings([{"device": "cpu", "cores": 1}], [{"environment": "CartPole-v1"}]) == []
    assert not any_is_busy(None)
    assert any_is_busy({"devices": [], "environments": [{"taken_percent": 50.0}]})


def test_a_gpu_without_a_toolchain_gives_reasons_and_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("RLDYNO_CACHE_DIR", str(tmp_path))

    def resolve(framework: str, overrides: object) -> None:
        raise Problem(f"the {framework} toolchain is not built")

    monkeypatch.setattr(measure, "resolve", resolve)
    found = measure.limits_of("cuda", 1)
    assert found["copy_bytes_per_s"] is None
    assert found["reasons"]["copy_bytes_per_s"] == (
        "the torch toolchain is not built; the jax toolchain is not built"
    )
    assert not list(tmp_path.rglob("*.json"))
    assert floor(dqn(), 1, Limits.from_json(found)) is None


def test_the_host_is_measured(monkeypatch: pytest.MonkeyPatch):
    """Tiny sizes: the figures are real and of a sane order, between a calculator and a cluster."""
    monkeypatch.setattr(host, "MATRICES", (64,))
    monkeypatch.setattr(host, "COPIES", (2**16,))
    monkeypatch.setattr(host, "SECONDS", 0.01)
    assert 1e7 < host.peak_flops("float32") < 1e14
    assert 1e7 < host.copy_bandwidth(2) < 1e13


def test_environments_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(rig_limits, "SECONDS", 0.03)
    wanted = {"environment": "CartPole-v1", "environments": 2, "max_episode_steps": None}
    (tmp_path / rig_limits.JOB_FILE).write_text(
        json.dumps({"what": "environments", "environments": [wanted]})
    )
    assert rig_limits.find(tmp_path) == 0
    (found,) = json.loads((tmp_path / rig_limits.FOUND_FILE).read_text())
    assert found["environments"] == 2
    assert found["steps_per_s"] > 1000


def test_environment_rates_are_kept_and_only_rise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("RLDYNO_CACHE_DIR", str(tmp_path))
    rates = iter([100.0, 80.0, 120.0])
    monkeypatch.setattr(measure, "resolve", lambda framework, overrides: None)
    monkeypatch.setattr(
        measure,
        "run_job",
        lambda job, interpreter, cores: [{**one, "steps_per_s": next(rates)} for one in job["environments"]],
    )
    busy_machine(monkeypatch, 0.0, 0.0, 0.0)
    wanted = [{"environment": "CartPole-v1", "environments": 1, "max_episode_steps": None}]
    seen = [
        measure.environment_rates(wanted, again=again)[0]["steps_per_s"]
        for again in (False, False, True, True)
    ]
    assert seen == [100.0, 100.0, 100.0, 120.0]


def test_an_environments_rate_of_a_busy_machine_is_measured_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("RLDYNO_CACHE_DIR", str(tmp_path))
    rates = iter([50.0, 100.0])
    monkeypatch.setattr(measure, "resolve", lambda framework, overrides: None)
    monkeypatch.setattr(measure, "run_job", lambda *a: [{**wanted, "steps_per_s": next(rates)}])
    busy_machine(monkeypatch, 50.0, 2.0)
    wanted = {"environment": "CartPole-v1", "environments": 8, "max_episode_steps": None}
    (line,) = warnings([], measure.environment_rates([wanted]))
    assert line.startswith("8 × CartPole-v1 without an agent: measured while others used 50 %")
    for _ in range(2):
        (found,) = measure.environment_rates([wanted])
        assert (found["steps_per_s"], warnings([], [found])) == (100.0, [])


def test_an_environment_that_cannot_be_stepped_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def resolve(framework: str, overrides: object) -> None:
        raise Problem("the numpy toolchain is not built")

    monkeypatch.setenv("RLDYNO_CACHE_DIR", str(tmp_path))
    busy_machine(monkeypatch, 0.0)
    monkeypatch.setattr(measure, "resolve", resolve)
    done = CliRunner().invoke(app, ["limits", "--cores", "1", "--environment", "CartPole-v1"])
    assert "CartPole-v1: not measured: the numpy toolchain is not built" in done.output


def test_a_study_asks_for_each_device_and_environment_once(monkeypatch: pytest.MonkeyPatch):
    def limits_of(device: str, cores: int, overrides: object) -> dict[str, object]:
        if cores == 2:
            raise Problem("too busy")
        return {"device": device, "cores": cores}

    monkeypatch.setattr(study, "limits_of", limits_of)
    monkeypatch.setattr(study, "environment_rates", lambda wanted, overrides: list(wanted))
    cells = [
        SimpleNamespace(
            device="cpu", cores=cores, environment="CartPole-v1", max_episode_steps=None, hyper=Dqn()
        )
        for cores in (1, 1, 2)
    ]
    lines: list[str] = []
    found = study.study_limits(SimpleNamespace(cells=cells), None, lines.append)  # type: ignore[arg-type]
    assert found["devices"] == [{"device": "cpu", "cores": 1}]
    assert found["environments"] == [
        {"environment": "CartPole-v1", "environments": 1, "max_episode_steps": None}
    ]
    assert lines == ["no limits of cpu with 2 cores: too busy"]
