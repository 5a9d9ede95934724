"""Rungs: weights, forward, loss, gradients, clipped gradients, 1, 10 and 100 updates, several updates in one
call, target, actions, contract, laziness, loop.

The gate is float64: any agreement worse than 1e-10 is a difference in the algorithm, not in rounding. Adam
hides errors of scale in the weights, which is why loss and gradients have rungs of their own. Float32 shows
what training will really do: 1e-5 after one update, and a drift over 100 that is reported but has no limit.

An error is relative to the largest magnitude of the array it is in; for gradients and moments in float32, of
all arrays together, because a small gradient that is a difference of large sums keeps their rounding.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

import numpy as np

from rldyno_rig import synthetic
from rldyno_rig.algorithms import stacked_batch, synthetic_batch
from rldyno_rig.algorithms.algorithm import many_of
from rldyno_rig.backends.contract import Learner
from rldyno_rig.hyper import network_kind
from rldyno_rig.job_files import ProofSubject
from rldyno_rig.proof import loop
from rldyno_rig.proof.difference import Difference, between, farthest, worst
from rldyno_rig.proof.ensemble import EnsembleClimb, proven_members
from rldyno_rig.proof.forms import ROWS
from rldyno_rig.proof.laziness import deferred_share
from rldyno_rig.proof.promises import ACTED, Promises
from rldyno_rig.proof.rung import CONTRACT, ENSEMBLE, MANY, OWN_STEP, STARTED, Rung
from rldyno_rig.proof.standard import UPDATES, limits
from rldyno_rig.reference.learner import ReferenceLearner
from rldyno_rig.reference.optimiser import adam_scalars
from rldyno_rig.shape import Shape
from rldyno_rig.spec import STORED, Params, Spec, draw_params

ACTING_ROWS = 16
TOGETHER = 4
"""Updates in one call."""
ROUNDS = 3
"""Updates of each member of an ensemble, without convolutions: with large images one takes a second."""

Make = Callable[[Spec, Params, str], Learner]
Arrays = Tuple[np.ndarray, ...]


class Climb:
    """A learner and the reference side by side: the same weights, the same batches."""

    def __init__(
        self, spec: Spec, make: Make, dtype: str, index_dtype: str, shape: Optional[Shape] = None
    ) -> None:
        """`make(spec, params, dtype)` builds the learner to be proven; `shape`: in the sizes of a study."""
        self.spec, self.dtype, self.shape = spec, dtype, shape
        self.stored, self.index_dtype = STORED[dtype], index_dtype
        self.rng = np.random.default_rng(1)
        self.rows, self.act_rows, self.many = ROWS, ACTING_ROWS, TOGETHER
        if shape is not None:
            self.rows, self.act_rows, self.many = shape.update_rows, shape.act_rows, shape.updates
        self.together = self.stored == "float32"
        subject = ProofSubject(spec.algorithm, network_kind(spec.network.convolutions), shape)
        self.limits = limits(subject, dtype, many=True)
        self.promises = Promises(spec, self.stored, self.rows)
        params = draw_params(spec, self.rng)
        params = perturbed(params, self.rng) if shape is None else with_biases(params, self.rng)
        self.make = make
        self.learner = make(spec, params, dtype)
        # The reference works in float64 on exactly the numbers that the learner was given.
        self.given = self.as_stored(params)
        self.reference = ReferenceLearner(spec, self.given, "float64")

    def rungs(self) -> Iterator[Rung]:
        """Every rung of one precision."""
        return self.small_form() if self.shape is None else self.in_shape()

    def in_shape(self) -> Iterator[Rung]:
        """What training calls, in the sizes of a study."""
        yield from self.updates()
        if MANY in self.limits:
            yield from self.many_updates()
        yield self.actions(self.acting())
        if ENSEMBLE in self.limits:
            yield self.ensemble()
        yield self.contract()

    def small_form(self) -> Iterator[Rung]:
        yield self.rung("weights", worst(self.given, self.state()["params"]))
        acting = self.acting()
        yield self.forward(acting)
        yield from self.gradients()
        yield from self.updates()
        yield from self.many_updates()
        self.learner.sync_target()
        state = self.state()
        yield self.rung("target synced", worst(state["params"], state["target"]))
        yield self.actions(acting)
        yield self.rung("state reloaded", _reload(self.learner))
        yield self.contract()
        if STARTED in self.limits:
            yield self.started(acting)
        if "loop" in self.limits:
            yield self.rung("loop", Difference(loop.error(self.spec)))

    def forward(self, acting: Arrays) -> Rung:
        obs, *noise = acting
        network_noise = noise[0] if self.spec.network.noisy else None
        expected = self.reference.forward(obs, None if network_noise is None else double(network_noise))
        got = self.learner.forward(obs, network_noise)
        self.promises.check_forward(expected, got)
        return self.rung("forward", worst(expected, got))

    def gradients(self) -> Iterator[Rung]:
        batch = self.batch()
        got = self.learner.grads(batch)
        self.promises.check_grads(got)
        loss, raw, clipped = got
        right_loss, right_raw, right_clipped = self.reference.grads(doubles(batch))
        yield self.rung("loss", between(right_loss, loss, name="loss"))
        yield self.rung("gradients", worst(right_raw, raw, self.together))
        yield self.rung("clipped gradients", worst(right_clipped, clipped, self.together))

    def updates(self) -> Iterator[Rung]:
        """After 1, 10 and 100 updates; in float32 only the first one has a limit."""
        learner, reference, lr = self.learner, self.reference, self.spec.hyper.learning_rate
        seen: List[Tuple[Arrays, List[np.ndarray]]] = []
        for goal in (goal for goal in UPDATES if goal == 1 or "weights after {}".format(goal) in self.limits):
            while len(seen) < goal:
                batch = self.batch()
                seen.append((batch, [array.copy() for array in batch]))
                handle = learner.update(self.put(batch), lr)
                right = reference.update(doubles(batch), lr)
                read = learner.read(handle)
                self.promises.check_read(read, right[1] is not None)
            state, right_state = self.state(), reference.state()
            weights, optimiser = (name.format(goal) for name in ("weights after {}", "optimiser after {}"))
            if weights in self.limits:
                yield self.rung(weights, worst(right_state["params"], state["params"]))
            if optimiser in self.limits:
                yield self.rung(optimiser, moments(right_state, state, self.together))
            if goal == 1:
                if OWN_STEP in self.limits:
                    yield self.rung(OWN_STEP, worst(self.stepped(state), state["params"]))
                yield self.rung("loss returned", between(right[0], read[0], name="loss"))
                if "priorities" in self.limits:
                    yield self.rung("priorities", between(right[1], read[1], name="priorities"))
                yield self.rung("target untouched", worst(right_state["target"], state["target"]))
        # Earlier batches too: a recorded graph may write the next batch into the memory of the last one.
        changes = [
            between(copy, array, name="array {} of the batch".format(place))
            for batch, copies in seen
            for place, (copy, array) in enumerate(zip(copies, batch))
        ]
        yield self.rung("batches untouched", farthest(*changes))

    def many_updates(self) -> Iterator[Rung]:
        """`update_many`, where there is one, against single updates: the reference's and the learner's own.

        Both begin with the learner's state, so that drift before it does not count.
        """
        update_many = many_of(self.learner, self.many)
        if update_many is None:
            return
        learner, lr, before = self.learner, self.spec.hyper.learning_rate, self.state()
        stacked = stacked_batch(self.spec, self.rng, self.stored, self.index_dtype, self.rows, self.many)
        copies = [array.copy() for array in stacked]
        read = learner.read(update_many(self.put(stacked), lr))
        state = self.state()
        untouched = [between(copy, array, name="the batches") for copy, array in zip(copies, stacked)]
        differences = [worst(before["target"], state["target"]), *untouched]
        others: Tuple[Any, ...] = (ReferenceLearner(self.spec, before["params"], "float64"), learner)
        for other in others:
            other.load(before)
            for batch in map(self.spec.batch, *stacked):
                given = doubles(batch) if other is not learner else self.put(batch)
                right = other.read(other.update(given, lr))
            expected = other.state()
            differences += [
                worst(expected["params"], state["params"]),
                moments(expected, state, self.together),
                between(expected["t"], state["t"], name="t"),
                between(right[0], read[0], name="loss"),
            ]
            if right[1] is not None:
                differences.append(between(right[1], read[1], name="priorities"))
        self.promises.check_read(read, right[1] is not None)
        yield self.rung(MANY, farthest(*differences))

    def stepped(self, state: Any) -> Params:
        """Where the learner's own moments lead after one update."""
        hyper = self.spec.hyper
        step, root = adam_scalars(hyper, 1, hyper.learning_rate)
        m, v = state["m"], roots(state["v"])
        return {
            name: p - step * double(m[name]) / (double(v[name]) * root + hyper.adam_eps)
            for name, p in self.given.items()
        }

    def actions(self, acting: Arrays) -> Rung:
        """`act` against the reference with the learner's own weights now: same choices, same numbers."""
        reference = ReferenceLearner(self.spec, self.learner.state()["params"], "float64")
        expected = reference.act(*doubles(acting))
        got = self.learner.act(*self.put(acting))
        self.promises.check_acted(expected, got)
        difference = farthest(*(between(e, g, name=name) for name, e, g in zip(ACTED, expected, got)))
        if len(got) != len(expected) or not np.array_equal(expected[0], got[0]):
            difference = difference._replace(error=float("inf"))
        return self.rung("actions", difference)

    def ensemble(self) -> Rung:
        """Members of their own against as many references; weights in float64 alone, as in all shapes."""
        count = proven_members(self.spec.hyper)
        drawn = [with_biases(draw_params(self.spec, self.rng), self.rng) for _ in range(count)]
        climb = EnsembleClimb(
            self.spec,
            lambda params: self.make(self.spec, params, self.dtype),
            [self.as_stored(params) for params in drawn],
            self.index_dtype,
            self.promises,
        )
        double, mlp = self.dtype == "float64", not self.spec.network.convolutions
        rounds = [[self.batch() for _ in range(count)] for _ in range(ROUNDS if double and mlp else 1)]
        learned = climb.learned(rounds, doubles)
        decided = climb.decided(*self.acting())
        return self.rung(ENSEMBLE, farthest(*decided, *(learned if double else ())))

    def as_stored(self, params: Params) -> Params:
        """The numbers that a learner of this precision keeps, in float64."""
        return {name: p.astype(self.stored).astype(np.float64) for name, p in params.items()}

    def contract(self) -> Rung:
        broken = self.promises.broken
        return self.rung(CONTRACT, Difference(float(len(broken)), "; ".join(broken)))

    def started(self, acting: Arrays) -> Rung:
        share = deferred_share(self.learner, self.batch(), acting, self.spec.hyper.learning_rate)
        words = (
            "{:.0%} of the work of update is done by the calls after it, which are charged for it: "
            "start the computation in update"
        )
        return self.rung(STARTED, Difference(share, words.format(share)))

    def put(self, arrays: Any) -> Any:
        placed = self.learner.put(*arrays)
        self.promises.check_put(arrays, placed)
        return placed

    def state(self) -> Any:
        state = self.learner.state()
        self.promises.check_state(state)
        return state

    def acting(self) -> Arrays:
        return synthetic.acting(self.spec, self.rng, self.stored, self.act_rows)

    def batch(self) -> Any:
        return synthetic_batch(self.spec, self.rng, self.stored, self.index_dtype, self.rows)

    def rung(self, name: str, difference: Difference) -> Rung:
        found = Rung(name, self.dtype, difference.error, self.limits[name])
        return found if found.passed else replace(found, detail=difference.detail)


def _reload(learner: Learner) -> Difference:
    """state → load → state, while updates in between would have moved everything."""
    state = {key: dict(value) if isinstance(value, dict) else value for key, value in learner.state().items()}
    learner.load(state)
    again = learner.state()
    # Backends may keep the moments scaled; one multiplication and one division round.
    rounding = 4 * np.finfo(next(iter(state["params"].values())).dtype).eps
    moments = farthest(*(worst(state[key], again[key]) for key in ("m", "v")))
    if not moments.error <= rounding:
        return Difference(float("inf"), "moments: " + moments.detail)
    if state["t"] != again["t"]:
        return Difference(float("inf"), "t is {} instead of {}".format(again["t"], state["t"]))
    return farthest(*(worst(state[key], again[key]) for key in ("params", "target")))


def perturbed(params: Params, rng: np.random.Generator) -> Params:
    """Biases and the policy head start at or near zero, where a swapped or dropped one would not show."""
    return {name: p + 0.05 * rng.standard_normal(p.shape) for name, p in params.items()}


def with_biases(params: Params, rng: np.random.Generator) -> Params:
    """Of shapes: disturbed weights of large layers make values so large that float32 loses their differences.

    With 84 × 84 images the moments were then off by 1e-4, for rounding alone.
    """
    return {name: p + 0.05 * rng.standard_normal(p.shape) if p.ndim == 1 else p for name, p in params.items()}


def moments(expected: Any, got: Any, together: bool) -> Difference:
    """Of the optimiser, between two states."""
    return farthest(
        worst(expected["m"], got["m"], together),
        worst(roots(expected["v"]), roots(got["v"]), together),
    )


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
