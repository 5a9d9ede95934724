"""The ladder lets the right backend pass and catches each mistake that real code bases have shipped."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from rldyno_rig.algorithms import ALGORITHMS, LEARNERS
from rldyno_rig.algorithms.ppo import PpoBatch
from rldyno_rig.backends import numpy_, numpy_maths
from rldyno_rig.job_files import ProofSubject
from rldyno_rig.parts import advantage
from rldyno_rig.proof import loop
from rldyno_rig.proof.forms import shape_of, variants
from rldyno_rig.proof.ladder import Climb
from rldyno_rig.proof.rung import Rung
from rldyno_rig.proof.standard import GATE, RUNGS, limits, of_team
from rldyno_rig.reference.learner import choose
from rldyno_rig.reference.network import forward
from rldyno_rig.spec import STORED, Params, Spec


def first_spec(algorithm: str, network: str = "mlp") -> Spec:
    return variants(algorithm, network)[0][1]


def rungs(spec: Spec, learner: Callable[..., Any], dtype: str = "float64") -> dict[str, Rung]:
    return {rung.name: rung for rung in Climb(spec, learner, dtype, "int64").rungs()}


def failed(spec: Spec, learner: Callable[..., Any], dtype: str = "float64") -> set[str]:
    return {name for name, rung in rungs(spec, learner, dtype).items() if not rung.passed}


@pytest.mark.parametrize("network", ["mlp", pytest.param("cnn", marks=pytest.mark.slow)])
@pytest.mark.parametrize("algorithm", LEARNERS)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_right_backend_passes(algorithm: str, network: str, dtype: str) -> None:
    assert failed(first_spec(algorithm, network), numpy_.Learner, dtype) == set()


class SampleDeviation(numpy_.Learner):
    """Normalises advantages once more, with ddof = 1, as torch.std would."""

    def _renormalised(self, batch: tuple) -> tuple:
        named = PpoBatch(*batch)
        a = named.advantage
        return named._replace(advantage=(a - a.mean()) / (a.std(ddof=1) + 1e-8))

    def update(self, batch: tuple, lr: float) -> tuple:
        return super().update(self._renormalised(batch), lr)

    def grads(self, batch: tuple) -> tuple:
        return super().grads(self._renormalised(batch))


class SumLoss(numpy_.Learner):
    """Sums over the batch where the reference averages. Adam hides it from the weights."""

    def grads(self, batch: tuple) -> tuple:
        loss, raw, _ = super().grads(batch)
        rows = len(batch[0])
        scaled = {name: g * rows for name, g in raw.items()}
        self.gradient[...] = self.layout.pack(scaled)
        numpy_.clip(self.model, self.gradient)
        return loss * rows, scaled, self.layout.unpack(self.gradient)


class EpsInsideRoot(numpy_.Learner):
    """√(v̂ + ε) instead of √v̂ + ε."""

    def __init__(self, spec: Spec, params: Params, dtype: str) -> None:
        super().__init__(spec, params, dtype)
        self.step = self._wrong_adam

    def _wrong_adam(self, model: Any, flat: Any, m: Any, v: Any, gradient: Any, t: int, lr: float) -> None:
        hyper = model.hyper
        m[:] = hyper.adam_beta1 * m + gradient
        v[:] = hyper.adam_beta2 * v + gradient**2
        m_hat = m * (1 - hyper.adam_beta1) / (1 - hyper.adam_beta1**t)
        v_hat = v * (1 - hyper.adam_beta2) / (1 - hyper.adam_beta2**t)
        flat -= lr * m_hat / np.sqrt(v_hat + hyper.adam_eps)


def clip_separately(model: numpy_maths.Model, gradient: np.ndarray) -> None:
    """Clips actor and critic each by its own norm."""
    hyper = model.hyper
    for part in (("actor", "policy"), ("critic", "value")):
        views = [g for name, g in model.gradients.items() if name.split(".")[0] in part]
        norm = math.sqrt(sum(float(np.vdot(g, g)) for g in views))
        for view in views:
            view[...] *= min(1.0, hyper.max_grad_norm / (norm + hyper.clip_eps))


class SwappedConvolution(numpy_.Learner):
    """Reads HWIO kernels as WHIO: same shapes, other picture."""

    def _swapped(self) -> Params:
        return {
            name: p.swapaxes(0, 1) if ".conv" in name and p.ndim == 4 else p
            for name, p in self.weights.items()
        }

    def act(self, obs: np.ndarray, noise: np.ndarray | None = None) -> tuple[np.ndarray, ...]:
        outputs = self.forward(obs, noise if self.spec.network.noisy else None)
        return choose(self.spec, outputs, noise)

    def forward(self, obs: np.ndarray, noise: np.ndarray | None) -> dict[str, np.ndarray]:
        return forward(self.spec.network, self._swapped(), obs, noise)[0]


def test_ddof_is_caught() -> None:
    assert {"loss", "gradients"} <= failed(first_spec("ppo"), SampleDeviation)


def test_ddof_in_the_shared_loop_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def with_sample_deviation(a: np.ndarray) -> np.ndarray:
        return (a - a.mean()) / (a.std(ddof=1) + 1e-8)

    assert advantage.normalise is not with_sample_deviation
    monkeypatch.setattr("rldyno_rig.algorithms.ppo.normalise", with_sample_deviation)
    assert failed(first_spec("ppo"), numpy_.Learner) == {"loop"}


@pytest.mark.parametrize("algorithm", LEARNERS)
def test_sum_instead_of_mean_is_caught(algorithm: str) -> None:
    assert {"loss", "gradients"} <= failed(first_spec(algorithm), SumLoss)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_eps_inside_the_root_is_caught(algorithm: str) -> None:
    caught = failed(first_spec(algorithm), EpsInsideRoot)
    assert {"weights after 1", "weights after 100"} <= caught
    assert not {"loss", "gradients", "clipped gradients"} & caught


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_time_limit_taken_for_a_termination_is_caught(
    algorithm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = loop.Script.step

    def step(self: loop.Script, actions: np.ndarray) -> tuple:
        obs, reward, terminated, truncated, final_obs = right(self, actions)
        return obs, reward, terminated | truncated, truncated, final_obs

    monkeypatch.setattr(loop.Script, "step", step)
    assert failed(first_spec(algorithm), numpy_.Learner) == {"loop"}


@pytest.mark.parametrize("algorithm", ["a2c", "ppo"])
def test_a_missing_bootstrap_of_the_final_observation_is_caught(
    algorithm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = advantage.gae
    monkeypatch.setattr(advantage, "gae", lambda r, v, bootstrap, *rest: right(r, v, 0 * bootstrap, *rest))
    assert failed(first_spec(algorithm), numpy_.Learner) == {"loop"}


@pytest.mark.parametrize("algorithm", ["a2c", "ppo"])
def test_separate_clipping_is_caught(algorithm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numpy_, "clip", clip_separately)
    caught = failed(first_spec(algorithm), numpy_.Learner)
    assert "clipped gradients" in caught
    assert "gradients" not in caught


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", LEARNERS)
def test_a_swapped_convolution_layout_is_caught(algorithm: str) -> None:
    caught = failed(first_spec(algorithm, "cnn"), SwappedConvolution)
    assert {"forward", "actions"} <= caught
    assert "weights" not in caught


def test_tf32_is_reported_but_not_judged_and_exact_rungs_stay_exact() -> None:
    class Coarse(numpy_.Learner):
        """Rounds its weights to ten bits for the forward pass, as TensorFloat-32 does with every factor."""

        def forward(self, obs: np.ndarray, noise: np.ndarray | None) -> dict[str, np.ndarray]:
            coarse = {name: p.astype(np.float16).astype(p.dtype) for name, p in self.weights.items()}
            return numpy_maths.forward(self.model, coarse, obs, noise)[0]

    def make(spec: Spec, params: dict[str, np.ndarray], dtype: str) -> Coarse:
        assert dtype == "tf32"
        return Coarse(spec, params, "float32")

    found = rungs(first_spec("dqn"), make, "tf32")
    assert found["forward"].error > 1e-5
    assert found["forward"].tolerance is None
    assert found["weights"].tolerance == 0.0
    assert all(rung.passed for rung in found.values())


def test_float32_bias_correction_is_caught_in_float64() -> None:
    class SinglePrecisionScalars(numpy_.Learner):
        def update(self, batch: tuple, lr: float) -> tuple:
            before = self.flat.copy()
            report = super().update(batch, lr)
            rounded = np.float32(1 - np.float32(0.9) ** np.float32(self.t))
            self.flat[:] = before + (self.flat - before) * float((1 - 0.9**self.t) / rounded)
            return report

    assert "weights after 1" in failed(first_spec("dqn"), SinglePrecisionScalars)


def test_a_batch_written_through_is_caught() -> None:
    class Scribbler(numpy_.Learner):
        def read(self, handle: tuple) -> tuple:
            self.last[2][0] += 1
            return handle

        def put(self, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
            self.last = arrays
            return arrays

    assert failed(first_spec("dqn"), Scribbler) == {"batches untouched"}


def test_a_stale_target_network_is_caught() -> None:
    class NeverSyncs(numpy_.Learner):
        def sync_target(self) -> None:
            pass

    assert failed(first_spec("dqn"), NeverSyncs) == {"target synced"}


def test_a_nan_is_never_equal() -> None:
    class Poisoned(numpy_.Learner):
        def forward(self, obs: np.ndarray, noise: np.ndarray | None) -> dict[str, np.ndarray]:
            outputs = super().forward(obs, noise)
            outputs["q"][0, 0] = np.nan
            return outputs

    assert "forward" in failed(first_spec("dqn"), Poisoned)


def test_a_failing_rung_names_the_array_and_the_place() -> None:
    class Off(numpy_.Learner):
        def forward(self, obs: np.ndarray, noise: np.ndarray | None) -> dict[str, np.ndarray]:
            outputs = super().forward(obs, noise)
            outputs["q"][2, 1] += 1.0
            return outputs

        def grads(self, batch: Any) -> Any:
            loss, raw, clipped = super().grads(batch)
            name = next(iter(raw))
            return loss, {**raw, name: raw[name].T}, clipped

    found = rungs(first_spec("dqn"), Off)
    assert found["forward"].detail.startswith("q[2, 1] is ")
    assert "has the shape" in found["gradients"].detail


def test_float32_arithmetic_in_float64_is_recognised() -> None:
    class Rounds(numpy_.Learner):
        def forward(self, obs: np.ndarray, noise: np.ndarray | None) -> dict[str, np.ndarray]:
            single = {name: p.astype(np.float32).astype(np.float64) for name, p in self.weights.items()}
            return numpy_maths.forward(self.model, single, obs, noise)[0]

    rung = rungs(first_spec("dqn"), Rounds)["forward"]
    assert "looks like float32 arithmetic" in rung.failure()
    wrong = rungs(first_spec("ppo"), SumLoss)["loss"]
    assert "float32" not in wrong.failure()


class Many(numpy_.Learner):
    """Makes several updates in one call, one after the other."""

    def update_many(self, batches: tuple, lr: float) -> tuple:
        return [self.update(batch, lr) for batch in zip(*batches, strict=True)][-1]


class AccumulatesGradients(Many):
    """One update on all rows together: another algorithm, with as many steps counted."""

    def update_many(self, batches: tuple, lr: float) -> tuple:
        report = self.update(tuple(np.concatenate(array) for array in batches), lr)
        self.t += len(batches[0]) - 1
        return report


class ForgetsSteps(Many):
    def update_many(self, batches: tuple, lr: float) -> tuple:
        before = self.t
        report = super().update_many(batches, lr)
        self.t = before + 1
        return report


class ReportsTheFirst(Many):
    def update_many(self, batches: tuple, lr: float) -> tuple:
        first, *_ = [self.update(batch, lr) for batch in zip(*batches, strict=True)]
        return first


class Backwards(Many):
    def update_many(self, batches: tuple, lr: float) -> tuple:
        return super().update_many(tuple(array[::-1] for array in batches), lr)


class WritesIntoBatches(Many):
    def update_many(self, batches: tuple, lr: float) -> tuple:
        report = super().update_many(batches, lr)
        batches[0][-1] = 0
        return report


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["ppo", "rainbow"])
def test_updates_in_one_call_are_proven_where_a_learner_has_them(algorithm: str) -> None:
    assert "updates in one call" not in rungs(first_spec(algorithm), numpy_.Learner)
    found = rungs(first_spec(algorithm), Many)
    assert found["updates in one call"].tolerance == 1e-10
    assert all(rung.passed for rung in found.values())


@pytest.mark.parametrize(
    "learner", [AccumulatesGradients, ForgetsSteps, ReportsTheFirst, Backwards, WritesIntoBatches]
)
def test_updates_in_one_call_that_are_not_single_updates_are_caught(learner: type[Many]) -> None:
    assert failed(first_spec("ppo"), learner) == {"updates in one call"}


@pytest.mark.slow
@pytest.mark.parametrize("precision", GATE)
@pytest.mark.parametrize(("algorithm", "many"), [*product(LEARNERS, [False]), ("ppo", True)])
def test_what_is_climbed_is_what_is_required(algorithm: str, many: bool, precision: str) -> None:
    def make(spec: Spec, params: Params, dtype: str) -> numpy_.Learner:
        return (Many if many else numpy_.Learner)(spec, params, STORED[dtype])

    spec = first_spec(algorithm)
    climbed = [(rung.name, rung.tolerance) for rung in Climb(spec, make, precision, "int64").rungs()]
    assert climbed == list(limits(ProofSubject(algorithm, "mlp"), precision, many).items())


def test_every_rung_is_required_of_something() -> None:
    dqn = first_spec("dqn")
    several = replace(dqn, hyper=replace(dqn.hyper, members=3))
    found = {
        rung
        for name, precision, shape in product(LEARNERS, GATE, (None, shape_of(several)))
        for rung in limits(ProofSubject(name, "mlp", shape), precision, many=True)
    }
    found |= {rung for precision in GATE for rung in of_team(precision)}
    assert found == set(RUNGS)
