"""The ladder catches what no number shows: other types than the contract's, and work put off until later."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from rldyno_rig.backends import numpy_
from rldyno_rig.proof.forms import variants
from rldyno_rig.proof.ladder import Climb
from rldyno_rig.proof.rung import STARTED, Rung
from rldyno_rig.spec import Params, Spec


def rungs(algorithm: str, learner: type[numpy_.Learner]) -> dict[str, Rung]:
    spec = variants(algorithm, "mlp")[0][1]
    return {rung.name: rung for rung in Climb(spec, learner, "float32", "int64").rungs()}


def failed(found: dict[str, Rung]) -> set[str]:
    return {name for name, rung in found.items() if not rung.passed}


class OwnArray:
    """An array of some framework: NumPy can read it, so every comparison passes."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return self.array.astype(dtype or self.array.dtype)

    def __len__(self) -> int:
        return len(self.array)


class ActsInOwnArrays(numpy_.Learner):
    def act(self, obs: np.ndarray, noise: np.ndarray | None = None) -> Any:
        return tuple(OwnArray(array) for array in super().act(obs, noise))


class ActsInAList(numpy_.Learner):
    def act(self, obs: np.ndarray, noise: np.ndarray | None = None) -> Any:
        return list(super().act(obs, noise))


class ActsInFloats(numpy_.Learner):
    def act(self, obs: np.ndarray, noise: np.ndarray | None = None) -> Any:
        action, *rest = super().act(obs, noise)
        return (action.astype(np.float32), *rest)


class ReadsOwnScalars(numpy_.Learner):
    def read(self, handle: Any) -> Any:
        return OwnArray(np.array(handle[0])), handle[1]


class InventsPriorities(numpy_.Learner):
    def read(self, handle: Any) -> Any:
        return handle[0], np.zeros(3) if handle[1] is None else handle[1]


class SharesItsState(numpy_.Learner):
    def state(self) -> Any:
        return {**super().state(), "params": self.layout.views(self.flat)}


class KeepsDoubles(numpy_.Learner):
    def state(self) -> Any:
        state = super().state()
        return {**state, "m": {name: array.astype(np.float64) for name, array in state["m"].items()}}


class GivesGradientsInOwnArrays(numpy_.Learner):
    def grads(self, batch: Any) -> Any:
        loss, raw, clipped = super().grads(batch)
        return loss, {name: OwnArray(array) for name, array in raw.items()}, clipped


@pytest.mark.parametrize(
    ("learner", "algorithm", "said"),
    [
        (ActsInOwnArrays, "dqn", "act: action is test_ladder_contract.OwnArray, not a NumPy array"),
        (ActsInAList, "ppo", "act returns list, not a tuple"),
        (ActsInFloats, "ppo", "act: action has the dtype float32, not integer"),
        (ReadsOwnScalars, "dqn", "read: the loss is test_ladder_contract.OwnArray, not a float"),
        (InventsPriorities, "dqn", "read: priorities are numpy.ndarray, but the algorithm has none"),
        (SharesItsState, "dqn", "changed after it was returned"),
        (KeepsDoubles, "dqn", "has the dtype float64, not float32"),
        (GivesGradientsInOwnArrays, "dqn", "is test_ladder_contract.OwnArray, not a NumPy array"),
    ],
)
def test_a_learner_that_returns_other_types_than_the_contract_is_caught(
    learner: type[numpy_.Learner], algorithm: str, said: str
) -> None:
    found = rungs(algorithm, learner)
    assert not found["contract"].passed
    assert said in found["contract"].detail
    assert failed(found) == {"contract"}


class Lazy(numpy_.Learner):
    """Notes what to compute, and computes it when `read` or `act` needs it."""

    def __init__(self, spec: Spec, params: Params, dtype: str) -> None:
        self.noted: list[tuple[Any, float, list[Any]]] = []
        super().__init__(spec, params, dtype)

    def update(self, batch: Any, lr: float) -> Any:
        self.noted.append((batch, lr, []))
        return self.noted[-1][2]

    def compute(self) -> None:
        while self.noted:
            batch, lr, handle = self.noted.pop(0)
            handle.append(super().update(batch, lr))

    def read(self, handle: Any) -> Any:
        self.compute()
        return handle[0]

    def act(self, obs: np.ndarray, noise: np.ndarray | None = None) -> Any:
        self.compute()
        return super().act(obs, noise)

    def state(self) -> Any:
        self.compute()
        return super().state()


class LazyUntilDrained(Lazy):
    """Only the clock calls `drain`: a training loop would still pay in `act`."""

    def drain(self) -> None:
        self.compute()


class Threaded(Lazy):
    """Starts its work in another thread and waits for it where results are needed: that is not lazy."""

    def update(self, batch: Any, lr: float) -> Any:
        handle = super().update(batch, lr)
        self.finish()
        self.thread = threading.Thread(target=super().compute)
        self.thread.start()
        return handle

    def finish(self) -> None:
        if hasattr(self, "thread"):
            self.thread.join()

    def compute(self) -> None:
        self.finish()

    drain = finish


class OneBehind(Lazy):
    """Computes each update when the next one is noted: a loop that acts in between pays for all in `act`."""

    def update(self, batch: Any, lr: float) -> Any:
        self.compute()
        return super().update(batch, lr)


@pytest.mark.slow
@pytest.mark.parametrize("learner", [Lazy, LazyUntilDrained, OneBehind])
def test_an_update_that_starts_nothing_is_caught(learner: type[numpy_.Learner]) -> None:
    found = rungs("dqn", learner)
    assert failed(found) == {STARTED}
    assert found[STARTED].error > 0.6
    assert "start the computation in update" in found[STARTED].detail


def test_an_update_that_runs_in_another_thread_has_started() -> None:
    assert failed(rungs("dqn", Threaded)) == set()
