"""Rungs: weights, forward, loss, gradients, clipped gradients, 1, 10 and 100 updates, target, actions, loop.

The gate is float64: any agreement worse than 1e-10 is a difference in the algorithm, not in rounding. Adam
hides errors of scale in the weights, which is why loss and gradients have rungs of their own. Float32 shows
what training will really do: 1e-5 after one update, and a drift over 100 that is reported but has no limit.

An error is relative to the largest magnitude of the array it is in; for gradients and moments in float32, of
all arrays together, because a small gradient that is a difference of large sums keeps their rounding.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional

import numpy as np

from rldyno_rig import synthetic
from rldyno_rig.algorithms import ALGORITHMS, synthetic_batch
from rldyno_rig.proof import loop
from rldyno_rig.reference.learner import ReferenceLearner
from rldyno_rig.spec import STORED, Params, Spec, draw_params

GATE = {"float64": 1e-10, "float32": 1e-5, "tf32": None}
"""TensorFloat-32 is asked for knowing that it rounds: what it costs is reported, not judged."""
UPDATES = (1, 10, 100)
ACTING_ROWS = 16


class Rung(NamedTuple):
    rung: str
    dtype: str
    error: float
    """Largest relative difference from the reference."""
    tolerance: Optional[float]
    """None: reported, not judged."""
    passed: bool


Make = Callable[[Spec, Params, str], Any]


def climb(spec: Spec, make: Make, dtype: str, index_dtype: str, rows: int, seed: int = 1) -> Iterator[Rung]:
    """Every rung of one dtype. `make(spec, params, dtype)` builds the learner to be proven."""
    rng = np.random.default_rng(seed)
    params = perturbed(draw_params(spec, rng), rng)
    learner = make(spec, params, dtype)
    stored = STORED[dtype]
    # The reference works in float64 on exactly the numbers that the learner was given.
    as_given = {name: p.astype(stored).astype(np.float64) for name, p in params.items()}
    reference = ReferenceLearner(spec, as_given, "float64")

    together = stored == "float32"

    def batch() -> tuple:
        return synthetic_batch(spec, rng, stored, index_dtype, rows)

    def judged(rung: str, error: float, tolerance: Optional[float] = GATE[dtype]) -> Rung:
        return Rung(rung, dtype, error, tolerance, tolerance is None or bool(error <= tolerance))

    yield judged("weights", worst(as_given, learner.state()["params"]), 0.0)

    obs, *noise = acting = synthetic.acting(spec, rng, stored, ACTING_ROWS)
    network_noise = noise[0] if spec.network.noisy else None
    expected = reference.forward(obs, double(network_noise))
    yield judged("forward", worst(expected, learner.forward(obs, network_noise)))

    given = batch()
    loss, raw, clipped = learner.grads(given)
    right_loss, right_raw, right_clipped = reference.grads(doubles(given))
    yield judged("loss", relative(right_loss, loss))
    yield judged("gradients", worst(right_raw, raw, together))
    yield judged("clipped gradients", worst(right_clipped, clipped, together))

    done = 0
    seen: List[Any] = []
    for goal in UPDATES:
        while done < goal:
            given = batch()
            seen.append((given, [array.copy() for array in given]))
            handle = learner.update(learner.put(*given), spec.hyper.learning_rate)
            right = reference.update(doubles(given), spec.hyper.learning_rate)
            read = learner.read(handle)
            done += 1
        limited = GATE[dtype] if dtype == "float64" or goal == 1 else None
        state, right_state = learner.state(), reference.state()
        yield judged("weights after {}".format(goal), worst(right_state["params"], state["params"]), limited)
        moments = max(
            worst(right_state["m"], state["m"], together),
            worst(roots(right_state["v"]), roots(state["v"]), together),
        )
        yield judged("optimiser after {}".format(goal), moments, limited)
        if goal == 1:
            yield judged("loss returned", relative(right[0], read[0]))
            if right[1] is not None:
                yield judged("priorities", relative(right[1], read[1]))
            yield judged("target untouched", worst(right_state["target"], state["target"]), 0.0)

    # Earlier batches too: a recorded graph may write the next batch into the memory of the last one.
    changes = [relative(copy, array) for given, copies in seen for copy, array in zip(copies, given)]
    yield judged("batches untouched", max(changes), 0.0)
    learner.sync_target()
    yield judged("target synced", worst(learner.state()["params"], learner.state()["target"]), 0.0)
    yield _actions(spec, learner, dtype, acting)
    yield judged("state reloaded", _reload(learner), 0.0)
    if dtype == "float64" and spec.algorithm in ALGORITHMS:
        yield judged("loop", loop.error(spec))


def _actions(spec: Spec, learner: Any, dtype: str, acting: tuple) -> Rung:
    """`act` against the reference holding the learner's own weights now: same choices, same numbers."""
    reference = ReferenceLearner(spec, learner.state()["params"], "float64")
    expected = reference.act(*doubles(acting))
    got = learner.act(*learner.put(*acting))
    error = max(relative(e, g) for e, g in zip(expected, got))
    if len(got) != len(expected) or not np.array_equal(expected[0], got[0]):
        error = float("inf")
    tolerance = GATE[dtype]
    return Rung("actions", dtype, error, tolerance, tolerance is None or error <= tolerance)


def _reload(learner: Any) -> float:
    """state → load → state, while updates in between would have moved everything."""
    state = {key: dict(value) if isinstance(value, dict) else value for key, value in learner.state().items()}
    learner.load(state)
    again = learner.state()
    # Backends may keep the moments scaled; one multiplication and one division round.
    rounding = 4 * np.finfo(next(iter(state["params"].values())).dtype).eps
    moments = max(worst(state[key], again[key]) for key in ("m", "v"))
    exact = max(worst(state[key], again[key]) for key in ("params", "target"))
    return exact if moments <= rounding and state["t"] == again["t"] else float("inf")


def perturbed(params: Params, rng: np.random.Generator) -> Params:
    """Biases and the policy head start at or near zero, where a swapped or dropped one would not show."""
    return {name: p + 0.05 * rng.standard_normal(p.shape) for name, p in params.items()}


def worst(expected: Params, got: Params, together: bool = False) -> float:
    """The largest error of all arrays; `together` measures them all on the scale of the largest one."""
    if list(expected) != list(got):
        return float("inf")
    scale = max(float(np.max(np.abs(array))) for array in expected.values()) if together else None
    return max(relative(expected[name], got[name], scale) for name in expected)


def relative(expected: Any, got: Any, scale: Optional[float] = None) -> float:
    """max |got − expected| / max |expected|; infinite for another shape or a NaN."""
    expected, got = np.asarray(expected, np.float64), np.asarray(got, np.float64)
    if expected.shape != got.shape or not np.isfinite(got).all():
        return float("inf")
    difference = float(np.max(np.abs(got - expected), initial=0.0))
    if scale is None:
        scale = float(np.max(np.abs(expected), initial=0.0))
    return difference / scale if scale else difference


def roots(arrays: Params) -> Params:
    """√v, the form in which Adam uses its second moment."""
    return {name: np.sqrt(np.maximum(array, 0)) for name, array in arrays.items()}


def double(array: Optional[np.ndarray]) -> Optional[np.ndarray]:
    if array is None or not np.issubdtype(array.dtype, np.floating):
        return array
    return array.astype(np.float64)


def doubles(arrays: tuple) -> tuple:
    converted = [double(array) for array in arrays]
    return type(arrays)(*converted) if hasattr(arrays, "_fields") else tuple(converted)


def summary(rungs: List[Rung]) -> Dict[str, Any]:
    return {"passed": all(rung.passed for rung in rungs), "rungs": [rung._asdict() for rung in rungs]}
