"""Floors against arithmetic done by hand, and the machine's limits."""

from __future__ import annotations

import dataclasses

import pytest

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
from rldyno_rig import hyper
from rldyno_rig.spec import Spec, complete

# Multiply-adds of stooke2017's small network with 10 outputs, layer by layer.
CONV0 = 20 * 20 * 16 * (8 * 8 * 4)
CONV1 = 9 * 9 * 32 * (4 * 4 * 16)
DENSE = (9 * 9 * 32) * 512
OUT = 512 * 10
SMALL = CONV0 + CONV1 + DENSE + OUT
SMALL_WEIGHTS = (8 * 8 * 4 * 16 + 16) + (4 * 4 * 16 * 32 + 32) + (2592 * 512 + 512) + (512 * 10 + 10)
CPU = Limits("cpu", 1, {"float32": 1e9}, 1e9, None)


def dqn(**changes: object) -> Spec:
    values = dataclasses.replace(hyper.Dqn(), convolutions=hyper.CNN_SMALL, hidden=(512,), **changes)
    return complete("dqn", values, (4, 84, 84), "uint8", 10)


def mlp(algorithm: str, **changes: object) -> Spec:
    values = dataclasses.replace(hyper.ALGORITHMS[algorithm](), hidden=(64, 64), **changes)
    return complete(algorithm, values, (4,), "float32", 2)


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


@pytest.mark.parametrize("algorithm", sorted(hyper.ALGORITHMS))
def test_every_algorithm_has_a_floor(algorithm: str):
    found = floor(mlp(algorithm), 32, CPU)
    assert found is not None
    assert found.seconds > 0
