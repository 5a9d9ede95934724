"""Floors against arithmetic done by hand, and trials compared with them."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from rldyno.answers.limits import distances
from rldyno.limits.floor import (
    ACT,
    ARITHMETIC,
    MEMORY,
    TRANSFER,
    batch_bytes,
    floor,
    flops,
    memory_bytes,
)
from rldyno.limits.trials import MachineLimits
from rldyno.records.machine_limits import DeviceLimits, StudyLimits
from rldyno.results.load import load_results
from rldyno_rig import hyper
from rldyno_rig.algorithms import ALGORITHMS, LEARNERS
from rldyno_rig.algorithms.dqn import Dqn
from rldyno_rig.contestant import Contestant
from rldyno_rig.facts_file import WorkerFacts
from rldyno_rig.spec import Spec
from rldyno_rig.trial_file import Budget, TrialFile
from synthetic import NUMPY, TORCH, Shape, write_results

# Multiply-adds of stooke2017's small network with 10 outputs, layer by layer.
CONV0 = 20 * 20 * 16 * (8 * 8 * 4)
CONV1 = 9 * 9 * 32 * (4 * 4 * 16)
DENSE = (9 * 9 * 32) * 512
OUT = 512 * 10
SMALL = CONV0 + CONV1 + DENSE + OUT
SMALL_WEIGHTS = (8 * 8 * 4 * 16 + 16) + (4 * 4 * 16 * 32 + 32) + (2592 * 512 + 512) + (512 * 10 + 10)
CPU = DeviceLimits("cpu", 1, {"float32": 1e9}, 1e9, None)


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
    gpu = DeviceLimits("cuda", 1, {"float32": 1e15}, 1e15, 1e3)
    assert floor(dqn(), 16, gpu, measure=ACT) == (16 * 4 * 84 * 84 / 1e3, TRANSFER)
    assert floor(dqn(), 16, gpu, measure=ACT, copied=False).bound != TRANSFER  # type: ignore[union-attr]


def test_what_was_not_measured_gives_no_floor():
    assert floor(dqn(), 1, CPU, dtype="tf32") is None
    assert floor(dqn(), 1, dataclasses.replace(CPU, copy_bytes_per_s=None)) is None
    assert floor(dqn(), 1, dataclasses.replace(CPU, device="cuda")) is None
    assert floor(dqn(), 1, DeviceLimits("cuda", 1, {}, None, None)) is None


@pytest.mark.parametrize("algorithm", sorted(ALGORITHMS))
def test_every_algorithm_has_a_floor(algorithm: str):
    found = floor(mlp(algorithm), 32, CPU)
    assert found is not None
    assert found.seconds > 0


FACTS = WorkerFacts(observation_shape=(4,), actions=2)
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
LIMITS = StudyLimits.from_json(MANIFEST_LIMITS)


def trial_of(**changes: Any) -> TrialFile:
    trial = TrialFile(
        trial="t",
        contestant=Contestant("numpy", "eager"),
        algorithm="dqn",
        environment="CartPole-v1",
        seed=0,
        hyper=hyper.to_json(Dqn(hidden=(64, 64), batch_size=32)),
        budget=Budget(steps=100),
    )
    return dataclasses.replace(trial, **changes)


ROW = {"updates": 100, "phase_update_s": 0.07, "phase_transfer_s": 0.02, "phase_read_s": 0.01}


def test_a_trial_is_compared_with_its_machine():
    figures = MachineLimits(LIMITS).figures(trial_of(), FACTS, ROW)
    whole = 4 * 64 + 64 * 64 + 64 * 2
    floor_us = 2 * 32 * (4 * whole - 4 * 64) / 1e9 * 1e6
    assert figures["update_us"] == pytest.approx(1000.0)
    assert figures["update_floor_us"] == pytest.approx(floor_us)
    assert figures["update_floor_bound"] == ARITHMETIC
    assert figures["update_over_floor"] == pytest.approx(1000.0 / floor_us)
    assert figures["environment_alone_steps_per_s"] == 1e5


@pytest.mark.parametrize(
    ("trial", "facts", "limits"),
    [
        (trial_of(), FACTS, None),
        (trial_of(), None, LIMITS),
        (trial_of(cores=2), FACTS, LIMITS),
        (trial_of(device="cuda"), FACTS, LIMITS),
        (trial_of(hyper={"gone": 1}), FACTS, LIMITS),
    ],
)
def test_what_is_not_known_is_empty(trial: TrialFile, facts: WorkerFacts | None, limits: StudyLimits | None):
    figures = MachineLimits(limits).figures(trial, facts, ROW)
    assert figures["update_us"] == pytest.approx(1000.0)
    assert figures["update_floor_us"] is figures["update_over_floor"] is figures["update_floor_bound"] is None


def test_what_is_empty_says_why():
    held = MachineLimits(LIMITS)
    assert held.reasons(held.figures(trial_of(), FACTS, ROW)) == {}
    nothing = MachineLimits(None).figures(trial_of(), FACTS, {})
    assert set(MachineLimits.reasons(nothing)) == set(nothing)
    assert "not measured" in MachineLimits.reasons(nothing)["update_floor_us"]


def test_a_trial_without_updates_has_no_update_time():
    assert MachineLimits(LIMITS).figures(trial_of(), FACTS, {**ROW, "updates": 0})["update_us"] is None
    assert MachineLimits(LIMITS).figures(trial_of(), FACTS, {"updates": None})["update_us"] is None


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
