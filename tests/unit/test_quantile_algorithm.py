"""QR-DQN joins from one file: a head of quantiles needs a loss, and no change of a network or of `choose`."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import quantile
from quantile import ALGORITHM, QrDqn
from rldyno.study.file import load_study
from rldyno.study.plan import make_plan
from rldyno_rig import hyper, schema, training
from rldyno_rig.algorithms import ALGORITHMS, LEARNERS
from rldyno_rig.algorithms.dqn import Dqn, DqnBatch
from rldyno_rig.algorithms.rainbow import Rainbow
from rldyno_rig.contestant import Contestant
from rldyno_rig.reference import losses
from rldyno_rig.reference.learner import ReferenceLearner
from rldyno_rig.reference.losses import Loss, expected
from rldyno_rig.spec import CATEGORICAL, QUANTILES, SINGLE, Head, Params, Q, draw_params
from rldyno_rig.trial_file import Budget, TrialFile


@pytest.mark.slow
@pytest.mark.parametrize("network", hyper.NETWORKS)
def test_the_ladder_proves_it(network: str) -> None:
    proof = quantile.proof_of("numpy_", "eager", network, ("float64", "float32"))
    assert proof["passed"], quantile.failing(proof)
    rungs = {rung["rung"] for rung in proof["rungs"]}
    assert {"loop", "actions", "weights after 100"} <= rungs
    assert ("double dueling tanh: loss" in rungs) == (network == hyper.MLP)
    assert "qrdqn" not in ALGORITHMS
    assert "qrdqn" not in losses.LOSSES


def unweighted(model: Any, weights: Params, target: Params, batch: Any) -> Loss:
    """Every quantile learns the median."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(quantile, "middles", lambda atoms, dtype: np.full(atoms, 0.5, dtype))
        return quantile.numpy_loss(model, weights, target, batch)


def test_a_wrong_loss_is_not_proven() -> None:
    proof = quantile.proof_of("numpy_", "eager", hyper.MLP, ("float64",), loss=unweighted)
    assert not proof["passed"]
    assert {"loss", "gradients", "weights after 1"} <= set(quantile.failing(proof))
    assert "forward" not in quantile.failing(proof)


def test_the_loss_by_hand() -> None:
    """Two quantiles, one action, biases alone: θ = (0, 2), goals 1 and 3 · ½ + 1 = 2.5, κ = 1."""
    spec = ALGORITHM.spec(QrDqn(hidden=(), atoms=2), (1,), "float32", 1)
    params = {"q.w": np.zeros((1, 2)), "q.b": np.array([0.0, 2.0])}
    target = {"q.w": np.zeros((1, 2)), "q.b": np.array([0.0, 3.0])}
    one = np.ones(1)
    batch = DqnBatch(one[:, None], np.array([0]), one, one / 2, one[:, None])
    with quantile.added():
        loss = losses.loss_and_grads(spec, params, target, batch)
    # u of θ₁: 1 and 2.5, both above, weight ¼; of θ₂: −1 (weight ¼) and 0.5 (weight ¾).
    first, second = 0.25 * (0.5 + 2.0) / 2, (0.25 * 0.5 + 0.75 * 0.125) / 2
    assert loss.value == pytest.approx(first + second)
    np.testing.assert_allclose(loss.grads["q.b"], [-(0.25 + 0.25) / 2, -(-0.25 + 0.75 * 0.5) / 2])


def test_the_value_of_an_action_follows_from_the_support_of_its_head() -> None:
    q = np.array([[[0.0, 0.0], [-50.0, 50.0]]])
    for values, support, wanted in (
        (QrDqn(hidden=(), atoms=2), QUANTILES, [[0.0, 0.0]]),
        (Rainbow(hidden=(), atoms=2, v_min=-1.0, v_max=3.0), CATEGORICAL, [[1.0, 3.0]]),
    ):
        algorithm = ALGORITHM if support == QUANTILES else LEARNERS["rainbow"]
        spec = algorithm.spec(values, (1,), "float32", 2)
        assert spec.network.support == support
        np.testing.assert_allclose(expected(spec, q), wanted, atol=1e-12)
    spec = LEARNERS["dqn"].spec(Dqn(hidden=()), (1,), "float32", 2)
    assert spec.network.support == SINGLE
    np.testing.assert_array_equal(expected(spec, q[0]), q[0])


def test_the_greedy_action_has_the_largest_mean_and_not_the_largest_quantile() -> None:
    spec = ALGORITHM.spec(QrDqn(hidden=(), atoms=2), (1,), "float32", 2)
    params = draw_params(spec, np.random.default_rng(0))
    params["q.w"][:] = 0
    params["q.b"][:] = [-9.0, 10.0, 1.0, 2.0]  # means ½ and 1½
    (action,) = ReferenceLearner(spec, params, "float64").act(np.zeros((1, 1)))
    assert action == [1]


@pytest.mark.parametrize(("atoms", "support"), [(1, QUANTILES), (5, SINGLE)])
def test_a_head_whose_outputs_have_no_meaning_is_refused(atoms: int, support: str) -> None:
    with pytest.raises(ValueError, match="support"):
        Head(Q, atoms=atoms, support=support)


def test_a_study_plans_it(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_text(
        'contestants = ["numpy:eager"]\nalgorithms = ["qrdqn"]\nenvironments = ["CartPole-v1"]\n'
        "seeds = 1\nbudget = { steps = 300 }\n[hyper.qrdqn]\natoms = [4, 8]\n"
    )
    with quantile.added():
        assert {cell.hyper.atoms for cell in make_plan(load_study(path)).cells} == {4, 8}


def test_a_worker_trains_it(tmp_path: Path) -> None:
    trial = TrialFile(
        trial="qrdqn",
        contestant=Contestant("numpy", "eager"),
        algorithm="qrdqn",
        environment="CartPole-v1",
        seed=0,
        hyper=hyper.to_json(ALGORITHM.defaults("CartPole-v1")),
        budget=Budget(steps=300),
    )
    (tmp_path / schema.TRIAL_FILE).write_text(json.dumps(trial.to_json()))
    with quantile.added("numpy_maths"):
        assert training.train(tmp_path, time.perf_counter_ns()) == 0
    result = json.loads((tmp_path / schema.RESULT_FILE).read_text())
    assert (result["reason"], result["steps"], result["updates"]) == ("steps", 300, 60)
