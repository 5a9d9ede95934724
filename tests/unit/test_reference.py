"""The reference: its gradients are the slopes of its losses, its parts equal hand-worked values."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from rldyno_rig.algorithms import LEARNERS, synthetic_batch
from rldyno_rig.algorithms.classifier import Classifier, ClassifierBatch
from rldyno_rig.algorithms.dqn import Dqn, DqnBatch
from rldyno_rig.algorithms.rainbow import Rainbow
from rldyno_rig.proof.forms import variants
from rldyno_rig.proof.ladder import perturbed
from rldyno_rig.reference.learner import ReferenceLearner
from rldyno_rig.reference.losses import log_softmax, loss_and_grads, project
from rldyno_rig.reference.network import convolve, forward
from rldyno_rig.reference.optimiser import adam, adam_scalars, clip
from rldyno_rig.spec import Spec, draw_params, parameter_shapes

CASES = [
    pytest.param(spec, id=f"{algorithm}-{network}-{label or 'plain'}".replace(": ", ""))
    for algorithm in LEARNERS
    for network in ("mlp", "cnn")
    for label, spec in variants(algorithm, network)
]


@pytest.mark.parametrize("spec", CASES)
def test_gradients_are_finite_differences(spec: Spec) -> None:
    # tanh: the slope of relu jumps, and a finite step may straddle the jump.
    spec = dataclasses.replace(spec, network=dataclasses.replace(spec.network, activation="tanh"))
    rng = np.random.default_rng(3)
    params = perturbed(draw_params(spec, rng), rng)
    target = perturbed(params, rng)
    batch = synthetic_batch(spec, rng, "float64", "int64", 8)
    grads = loss_and_grads(spec, params, target, batch).grads
    assert list(grads) == list(parameter_shapes(spec.network))
    step = 1e-6
    for name, p in params.items():
        scale = np.abs(grads[name]).max() + 1e-9
        for index in {tuple(rng.integers(0, size) for size in p.shape) for _ in range(3)}:
            values = []
            for sign in (1, -1):
                moved = p.copy()
                moved[index] += sign * step
                values.append(loss_and_grads(spec, {**params, name: moved}, target, batch).value)
            slope = (values[0] - values[1]) / (2 * step)
            assert abs(slope - grads[name][index]) < 1e-6 * scale + 1e-9, name


def test_classifier_by_hand() -> None:
    """Two classes, logits 0 and ln 3: p = ¼ and ¾; plain descent moves the bias by lr · (p − label)."""
    spec = LEARNERS["classifier"].spec(Classifier(hidden=()), (1,), "float32", 2)
    params = {"q.w": np.zeros((1, 2)), "q.b": np.array([0.0, np.log(3.0)])}
    learner = ReferenceLearner(spec, params, "float64")
    loss, _ = learner.read(learner.update(ClassifierBatch(np.ones((1, 1)), np.array([0])), 0.1))
    assert loss == pytest.approx(np.log(4.0))
    assert learner.params["q.b"] == pytest.approx([0.1 * 0.75, np.log(3.0) - 0.1 * 0.75])


def test_dqn_loss_by_hand() -> None:
    """One linear layer, two transitions: every number worked out on paper."""
    spec = LEARNERS["dqn"].spec(Dqn(hidden=(), huber_delta=1.0), (1,), "float32", 2)
    params = {"q.w": np.array([[1.0, 2.0]]), "q.b": np.array([0.0, 0.5])}
    batch = DqnBatch(
        obs=np.array([[1.0], [2.0]]),
        action=np.array([0, 1]),
        reward=np.array([1.0, -1.0]),
        discount=np.array([0.5, 0.0]),
        next_obs=np.array([[1.0], [9.0]]),
    )
    # Q(s,a) = 1 and 4.5; goals 1 + 0.5·max(1, 2.5) = 2.25 and −1; differences −1.25 and 5.5.
    loss = loss_and_grads(spec, params, params, batch)
    assert loss.value == pytest.approx(((1.25 - 0.5) + (5.5 - 0.5)) / 2)
    np.testing.assert_allclose(loss.grads["q.b"], [-0.5, 0.5])
    np.testing.assert_allclose(loss.grads["q.w"], [[-0.5, 1.0]])


def test_double_dqn_values_the_online_choice_with_the_target() -> None:
    spec = LEARNERS["dqn"].spec(Dqn(hidden=(), double=True), (1,), "float32", 2)
    online = {"q.w": np.array([[0.0, 0.0]]), "q.b": np.array([3.0, 0.0])}
    target = {"q.w": np.array([[0.0, 0.0]]), "q.b": np.array([1.0, 10.0])}
    zero = np.zeros(1)
    batch = DqnBatch(np.zeros((1, 1)), np.array([1]), zero, np.ones(1), np.zeros((1, 1)))
    # The online network prefers action 0, which the target values at 1, not at its own best, 10.
    assert loss_and_grads(spec, online, target, batch).value == pytest.approx(0.5)


def test_projection_keeps_mass_and_mean() -> None:
    spec = LEARNERS["rainbow"].spec(Rainbow(atoms=5, v_min=0.0, v_max=4.0), (3,), "float32", 2)
    p = np.array([[0.1, 0.2, 0.4, 0.2, 0.1]])
    moved = project(spec, np.array([0.5]), np.array([0.5]), p)
    z = np.arange(5.0)
    assert moved.sum() == pytest.approx(1)
    assert (moved @ z)[0] == pytest.approx(0.5 + 0.5 * (p @ z)[0])
    np.testing.assert_allclose(project(spec, np.zeros(1), np.ones(1), p), p)
    # Everything beyond the support lands on its end.
    np.testing.assert_allclose(project(spec, np.array([99.0]), np.ones(1), p), [[0, 0, 0, 0, 1]])


def test_convolution_by_definition() -> None:
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((2, 3, 7, 6)), rng.standard_normal((3, 3, 3, 4))
    got = convolve(x, w, 2)
    assert got.shape == (2, 4, 3, 2)
    b, f, h, c = 1, 2, 2, 1
    expected = sum(
        x[b, channel, 2 * h + i, 2 * c + j] * w[i, j, channel, f]
        for i in range(3)
        for j in range(3)
        for channel in range(3)
    )
    assert got[b, f, h, c] == pytest.approx(expected)


def test_adam_adds_eps_after_the_bias_correction() -> None:
    settings = Dqn(adam_eps=0.1)
    zero = {"w": np.zeros(1)}
    # The first corrected moments are g and g², so the step is lr · g / (|g| + ε), exactly.
    params, _, _ = adam({"w": np.zeros(1)}, zero, zero, {"w": np.array([0.3])}, settings, 1, 0.5)
    assert params["w"][0] == pytest.approx(-0.5 * 0.3 / (0.3 + 0.1), rel=1e-14)
    step, root = adam_scalars(settings, 3, 0.5)
    assert step == pytest.approx(0.5 / (1 - 0.9**3))
    assert root == pytest.approx((1 - 0.999**3) ** -0.5)


def test_clip_is_one_norm_over_everything() -> None:
    grads = {"a": np.array([3.0]), "b": np.array([4.0])}
    clipped = clip(grads, Dqn(max_grad_norm=1.0))
    assert clipped["a"][0] == pytest.approx(3 / (5 + 1e-6))
    assert clip(grads, Dqn(max_grad_norm=6.0))["b"][0] == 4.0
    assert clip(grads, Dqn(max_grad_norm=0.0)) is grads


def test_log_softmax_survives_large_logits() -> None:
    np.testing.assert_allclose(log_softmax(np.array([[1e4, 0.0]])), [[0.0, -1e4]])


def test_uint8_observations_are_divided_by_255() -> None:
    spec = LEARNERS["dqn"].spec(Dqn(convolutions=((1, 1, 1),), hidden=()), (1, 1, 1), "uint8", 1)
    params = {name: np.ones(shape) for name, shape in parameter_shapes(spec.network).items()}
    outputs, _ = forward(spec.network, params, np.array([[[[51]]]], np.uint8), None)
    assert outputs["q"][0, 0] == pytest.approx(51 / 255 + 2)
