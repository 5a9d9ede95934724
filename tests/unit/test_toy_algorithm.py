"""An algorithm joins from one file: its value, its reference loss, and one loss per framework, here NumPy."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from rldyno.answers.comparison import compare
from rldyno.errors import Problem
from rldyno.limits.floor import UPDATE, floor, flops
from rldyno.limits.trials import update_floor
from rldyno.records.machine_limits import DeviceLimits
from rldyno.results.load import load_results
from rldyno.study.file import load_study
from rldyno.study.plan import make_plan
from rldyno_rig import hyper, schema, training
from rldyno_rig.algorithms import ALGORITHMS, LEARNERS, registered, title_of, update_rows
from rldyno_rig.algorithms.algorithm import Algorithm, Variant
from rldyno_rig.algorithms.dqn import train
from rldyno_rig.backends import numpy_, numpy_maths
from rldyno_rig.contestant import Contestant
from rldyno_rig.hyper import Replayed
from rldyno_rig.job_files import ProofJob, ProofSubject
from rldyno_rig.proof import job as proof_job
from rldyno_rig.reference import losses
from rldyno_rig.reference.losses import Loss, Passes
from rldyno_rig.reference.network import q_gradients, q_values
from rldyno_rig.spec import Head, Params, Q, Spec
from rldyno_rig.synthetic import Draw
from rldyno_rig.trial_file import Budget, TrialFile
from synthetic import Shape, write_results


@dataclasses.dataclass(frozen=True)
class Toy(Replayed):
    """Expected SARSA under a policy that takes every action equally often."""

    epsilon_start: float = 1.0
    epsilon_end: float = 0.1
    epsilon_steps: int = 100
    slope: float = 1.0
    """Multiplies the squared difference."""


class ToyBatch(NamedTuple):
    obs: np.ndarray
    action: np.ndarray
    reward: np.ndarray
    discount: np.ndarray
    next_obs: np.ndarray


def synthetic(draw: Draw) -> ToyBatch:
    return ToyBatch(*draw.transitions())


TOY = Algorithm(
    name="toy",
    title="Toy SARSA",
    hyper=Toy,
    batch=ToyBatch,
    head=lambda values: Head(Q),
    synthetic=synthetic,
    train=train,
    rows=lambda values: values.batch_size,
    target_passes=lambda values: 1,
    tuned={"CartPole-v1": {"hidden": (16,), "learning_starts": 64}},
    variants=(Variant("steep tanh", {"slope": 3.0, "activation": "tanh"}),),
)


def reference_loss(spec: Spec, params: Params, target: Params, batch: ToyBatch, passes: Passes) -> Loss:
    """mean slope · (Q(s,a) − (r + discount · mean_a' Q⁻(s', a')))²."""
    net, slope = spec.network, spec.hyper.slope
    goal = q_values(net, passes.forward(net, target, batch.next_obs, None)[0]).mean(1)
    outputs, tape = passes.forward(net, params, batch.obs, None)
    q, rows = q_values(net, outputs), np.arange(len(batch.action))
    difference = q[rows, batch.action] - (batch.reward + batch.discount * goal)
    g = np.zeros_like(q)
    g[rows, batch.action] = 2 * slope * difference / len(rows)
    value = float(np.mean(slope * difference**2))
    return Loss(value, passes.backward(params, tape, q_gradients(net, g)), None)


def numpy_loss(model: Any, weights: Params, target: Params, batch: ToyBatch) -> Loss:
    return reference_loss(model.spec, weights, target, batch, model.passes)


@pytest.fixture(autouse=True)
def toy(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(losses.LOSSES, "toy", reference_loss)
    monkeypatch.setitem(numpy_maths.LOSSES, "toy", numpy_loss)
    with registered(TOY):
        yield
    assert "toy" not in ALGORITHMS


STUDY = """
contestants = ["numpy:eager"]
algorithms = ["toy"]
environments = ["CartPole-v1"]
seeds = 2
budget = { steps = 300 }
[hyper.toy]
slope = [1, 2]
"""


def test_a_study_plans_it_and_checks_its_hyper_parameters(tmp_path: Path) -> None:
    path = tmp_path / "toy.toml"
    path.write_text(STUDY)
    plan = make_plan(load_study(path))
    assert {(cell.algorithm, cell.hyper.slope, cell.hyper.hidden) for cell in plan.cells} == {
        ("toy", 1.0, (16,)),
        ("toy", 2.0, (16,)),
    }
    path.write_text(STUDY.replace("slope = [1, 2]", "slop = 1"))
    with pytest.raises(Problem, match=r"hyper\.toy\.slop: .*'slope'"):
        load_study(path)


@pytest.mark.slow
def test_the_ladder_proves_it() -> None:
    requested = ProofJob("numpy_", "eager", "cpu", ("float64", "float32"), ())
    for network in hyper.NETWORKS:
        proof = proof_job._prove(numpy_, requested, ProofSubject("toy", network))
        assert proof["error"] is None
        assert proof["passed"], [rung for rung in proof["rungs"] if not rung["passed"]]
        rungs = {rung["rung"] for rung in proof["rungs"]}
        assert {"loop", "target synced", "weights after 100"} <= rungs
        assert ("steep tanh: loss" in rungs) == (network == hyper.MLP)


def test_a_wrong_loss_is_not_proven(monkeypatch: pytest.MonkeyPatch) -> None:
    def halved(model: Any, weights: Params, target: Params, batch: ToyBatch) -> Loss:
        loss = numpy_loss(model, weights, target, batch)
        return loss._replace(value=loss.value / 2)

    monkeypatch.setitem(numpy_maths.LOSSES, "toy", halved)
    requested = ProofJob("numpy_", "eager", "cpu", ("float64",), ())
    proof = proof_job._prove(numpy_, requested, ProofSubject("toy", hyper.MLP))
    assert {rung["rung"].rpartition(": ")[2] for rung in proof["rungs"] if not rung["passed"]} == {
        "loss",
        "loss returned",
    }


def test_a_worker_trains_it(tmp_path: Path) -> None:
    trial = TrialFile(
        trial="toy",
        contestant=Contestant("numpy", "eager"),
        algorithm="toy",
        environment="CartPole-v1",
        seed=0,
        hyper=hyper.to_json(TOY.defaults("CartPole-v1")),
        budget=Budget(steps=300),
    )
    (tmp_path / schema.TRIAL_FILE).write_text(json.dumps(trial.to_json()))
    assert training.train(tmp_path, time.perf_counter_ns()) == 0
    result = json.loads((tmp_path / schema.RESULT_FILE).read_text())
    assert (result["reason"], result["steps"]) == ("steps", 300)
    assert result["updates"] == 60


def test_its_floor_is_known() -> None:
    spec = TOY.spec(Toy(hidden=(8,)), (4,), "float32", 2)
    forward = 4 * 8 + 8 * 2
    # Output, gradients of weights and inputs, one pass over next_obs; the first layer's input needs none.
    assert flops(spec, 1, UPDATE) == 2 * (4 * forward - 4 * 8)
    limits = DeviceLimits("cpu", 1, {"float32": 1e9}, 1e9, None)
    found = floor(spec, update_rows(spec), limits)
    assert found is not None
    values = hyper.to_json(spec.hyper)
    trial = TrialFile("t", Contestant("numpy", "eager"), "toy", "CartPole-v1", 0, values, Budget())
    assert found == update_floor(trial, [4], 2, limits)


def test_its_title_is_shown(tmp_path: Path) -> None:
    results = load_results(write_results(tmp_path / "r", Shape(algorithms=["toy"])))
    (group,) = compare(results)
    assert group.algorithm == "Toy SARSA"
    assert title_of("gone") == "gone", "records of an algorithm that no longer exists keep its name"
    assert "toy" in LEARNERS
