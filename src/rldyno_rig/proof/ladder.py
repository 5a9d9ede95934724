"""Rungs: weights, forward, loss, gradients, clipped gradients, 1, 10 and 100 updates, target, actions, loop.

The gate is float64: any agreement worse than 1e-10 is a difference in the algorithm, not in rounding. Adam
hides errors of scale in the weights, which is why loss and gradients have rungs of their own. Float32 shows
what training will really do: 1e-5 after one update, and a drift over 100 that is reported but has no limit.

An error is relative to the largest magnitude of the array it is in; for gradients and moments in float32, of
all arrays together, because a small gradient that is a difference of large sums keeps their rounding.
"""

from __future__ import annotations

import math
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

import numpy as np

from rldyno_rig import synthetic
from rldyno_rig.algorithms import ALGORITHMS, synthetic_batch
from rldyno_rig.backends.contract import Learner
from rldyno_rig.proof import loop
from rldyno_rig.proof.rung import Rung, largest
from rldyno_rig.reference.learner import ReferenceLearner
from rldyno_rig.spec import STORED, Params, Spec, draw_params

GATE = {"float64": 1e-10, "float32": 1e-5, "tf32": None}
"""TensorFloat-32 is chosen although it rounds: its error is reported and has no limit."""
UPDATES = (1, 10, 100)
ACTING_ROWS = 16

Make = Callable[[Spec, Params, str], Learner]
Arrays = Tuple[np.ndarray, ...]


def climb(spec: Spec, make: Make, dtype: str, index_dtype: str, rows: int, seed: int = 1) -> Iterator[Rung]:
    """Every rung of one dtype. `make(spec, params, dtype)` builds the learner to be proven."""
    return Climb(spec, make, dtype, index_dtype, rows, np.random.default_rng(seed)).rungs()


class Climb:
    """A learner and the reference side by side: the same weights, the same batches."""

    def __init__(
        self, spec: Spec, make: Make, dtype: str, index_dtype: str, rows: int, rng: np.random.Generator
    ) -> None:
        self.spec, self.dtype, self.rng = spec, dtype, rng
        self.stored, self.index_dtype, self.rows = STORED[dtype], index_dtype, rows
        self.together = self.stored == "float32"
        params = perturbed(draw_params(spec, rng), rng)
        self.learner = make(spec, params, dtype)
        # The reference works in float64 on exactly the numbers that the learner was given.
        self.given = {name: p.astype(self.stored).astype(np.float64) for name, p in params.items()}
        self.reference = ReferenceLearner(spec, self.given, "float64")

    def rungs(self) -> Iterator[Rung]:
        yield self.exact("weights", worst(self.given, self.learner.state()["params"]))
        acting = synthetic.acting(self.spec, self.rng, self.stored, ACTING_ROWS)
        yield self.forward(acting)
        yield from self.gradients()
        yield from self.updates()
        self.learner.sync_target()
        state = self.learner.state()
        yield self.exact("target synced", worst(state["params"], state["target"]))
        yield self.actions(acting)
        yield self.exact("state reloaded", _reload(self.learner))
        if self.dtype == "float64" and self.spec.algorithm in ALGORITHMS:
            yield self.within("loop", loop.error(self.spec))

    def forward(self, acting: Arrays) -> Rung:
        obs, *noise = acting
        network_noise = noise[0] if self.spec.network.noisy else None
        expected = self.reference.forward(obs, None if network_noise is None else double(network_noise))
        return self.within("forward", worst(expected, self.learner.forward(obs, network_noise)))

    def gradients(self) -> Iterator[Rung]:
        batch = self.batch()
        loss, raw, clipped = self.learner.grads(batch)
        right_loss, right_raw, right_clipped = self.reference.grads(doubles(batch))
        yield self.within("loss", relative(right_loss, loss))
        yield self.within("gradients", worst(right_raw, raw, self.together))
        yield self.within("clipped gradients", worst(right_clipped, clipped, self.together))

    def updates(self) -> Iterator[Rung]:
        """After 1, 10 and 100 updates; in float32 only the first one has a limit."""
        learner, reference, lr = self.learner, self.reference, self.spec.hyper.learning_rate
        seen: List[Tuple[Arrays, List[np.ndarray]]] = []
        for goal in UPDATES:
            while len(seen) < goal:
                batch = self.batch()
                seen.append((batch, [array.copy() for array in batch]))
                handle = learner.update(learner.put(*batch), lr)
                right = reference.update(doubles(batch), lr)
                read = learner.read(handle)
            limit = GATE[self.dtype] if self.dtype == "float64" or goal == 1 else None
            state, right_state = learner.state(), reference.state()
            weights = worst(right_state["params"], state["params"])
            moments = largest(
                worst(right_state["m"], state["m"], self.together),
                worst(roots(right_state["v"]), roots(state["v"]), self.together),
            )
            yield self.rung("weights after {}".format(goal), weights, limit)
            yield self.rung("optimiser after {}".format(goal), moments, limit)
            if goal == 1:
                yield self.within("loss returned", relative(right[0], read[0]))
                if right[1] is not None:
                    yield self.within("priorities", relative(right[1], read[1]))
                yield self.exact("target untouched", worst(right_state["target"], state["target"]))
        # Earlier batches too: a recorded graph may write the next batch into the memory of the last one.
        changes = [relative(copy, array) for batch, copies in seen for copy, array in zip(copies, batch)]
        yield self.exact("batches untouched", largest(*changes))

    def actions(self, acting: Arrays) -> Rung:
        """`act` against the reference with the learner's own weights now: same choices, same numbers."""
        reference = ReferenceLearner(self.spec, self.learner.state()["params"], "float64")
        expected = reference.act(*doubles(acting))
        got = self.learner.act(*self.learner.put(*acting))
        error = largest(*(relative(e, g) for e, g in zip(expected, got)))
        if len(got) != len(expected) or not np.array_equal(expected[0], got[0]):
            error = float("inf")
        return self.within("actions", error)

    def batch(self) -> Any:
        return synthetic_batch(self.spec, self.rng, self.stored, self.index_dtype, self.rows)

    def within(self, name: str, error: float) -> Rung:
        return self.rung(name, error, GATE[self.dtype])

    def exact(self, name: str, error: float) -> Rung:
        return self.rung(name, error, 0.0)

    def rung(self, name: str, error: float, tolerance: Optional[float]) -> Rung:
        """NaN is no rounding: it fails even where an error has no limit."""
        passed = error <= tolerance if tolerance is not None else not math.isnan(error)
        return Rung(name, self.dtype, error, tolerance, bool(passed))


def _reload(learner: Learner) -> float:
    """state → load → state, while updates in between would have moved everything."""
    state = {key: dict(value) if isinstance(value, dict) else value for key, value in learner.state().items()}
    learner.load(state)
    again = learner.state()
    # Backends may keep the moments scaled; one multiplication and one division round.
    rounding = 4 * np.finfo(next(iter(state["params"].values())).dtype).eps
    moments = largest(*(worst(state[key], again[key]) for key in ("m", "v")))
    exact = largest(*(worst(state[key], again[key]) for key in ("params", "target")))
    return exact if moments <= rounding and state["t"] == again["t"] else float("inf")


def perturbed(params: Params, rng: np.random.Generator) -> Params:
    """Biases and the policy head start at or near zero, where a swapped or dropped one would not show."""
    return {name: p + 0.05 * rng.standard_normal(p.shape) for name, p in params.items()}


def worst(expected: Params, got: Params, together: bool = False) -> float:
    """The largest error of all arrays; `together` measures them all on the scale of the largest one."""
    if list(expected) != list(got):
        return float("inf")
    scale = max(float(np.max(np.abs(array))) for array in expected.values()) if together else None
    return largest(*(relative(expected[name], got[name], scale) for name in expected))


def relative(expected: Any, got: Any, scale: Optional[float] = None) -> float:
    """max |got − expected| / max |expected|; infinite for another shape, NaN where one is not finite."""
    expected, got = np.asarray(expected, np.float64), np.asarray(got, np.float64)
    if expected.shape != got.shape:
        return float("inf")
    if not (np.isfinite(expected).all() and np.isfinite(got).all()):
        return float("nan")
    difference = float(np.max(np.abs(got - expected), initial=0.0))
    if scale is None:
        scale = float(np.max(np.abs(expected), initial=0.0))
    return difference / scale if scale else difference


def roots(arrays: Params) -> Params:
    """√v, the form in which Adam uses its second moment."""
    return {name: np.sqrt(np.maximum(array, 0)) for name, array in arrays.items()}


def double(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float64) if np.issubdtype(array.dtype, np.floating) else array


def doubles(arrays: Any) -> Any:
    """The same batch, or plain tuple of arrays, with its floats in float64."""
    converted = [double(array) for array in arrays]
    return type(arrays)(*converted) if hasattr(arrays, "_fields") else tuple(converted)


def summary(rungs: List[Rung]) -> Dict[str, Any]:
    return {"passed": all(rung.passed for rung in rungs), "rungs": [rung.to_json() for rung in rungs]}
