"""The ladder of a team: workers on the shards of a batch, against the reference on the whole batch.

The mean of the gradients of equal shards is the gradient of the whole batch, so both must end with the same
weights. About half of the gradients are clipped: a sum instead of a mean shows where they are not, a mean of
clipped gradients where they are. Adam hides errors of scale in the weights, so its moments are compared, too.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Iterator, List, cast

import numpy as np

from rldyno_rig.algorithms import synthetic_batch
from rldyno_rig.backends.contract import TeamLearner
from rldyno_rig.hyper import MLP
from rldyno_rig.proof.difference import Difference, between, worst
from rldyno_rig.proof.forms import variants
from rldyno_rig.proof.ladder import Make, doubles, moments, perturbed
from rldyno_rig.proof.rung import EQUAL, Rung
from rldyno_rig.proof.standard import TEAM_UPDATES, of_team, team_label
from rldyno_rig.reference.learner import ReferenceLearner
from rldyno_rig.spec import STORED, Params, Spec, draw_params
from rldyno_rig.team.link import TeamError
from rldyno_rig.team.team import Team

ROWS = 48
"""Of a whole batch: it divides by 2, 3 and 4."""
MEASURED = 9
"""Batches whose gradients tell where to clip."""


class TeamClimb:
    """One rank of it. Every rank makes the same batches and takes its shard."""

    def __init__(self, algorithm: str, make: Make, dtype: str, index_dtype: str, team: Team) -> None:
        """`make(spec, params, dtype)` builds the learner to be proven."""
        self.team, self.dtype, self.stored, self.index_dtype = team, dtype, STORED[dtype], index_dtype
        self.limits = of_team(dtype)
        self.rng = np.random.default_rng(1)
        (_, plain), *_ = variants(algorithm, MLP)
        params = perturbed(draw_params(plain, self.rng), self.rng)
        given = {name: p.astype(self.stored).astype(np.float64) for name, p in params.items()}
        self.spec = clipping_half(plain, given)
        self.learner = cast(TeamLearner, make(self.spec, params, dtype))
        if not hasattr(self.learner, "join"):
            raise TeamError("this learner cannot train with others: it has no `join`")
        self.learner.join(team)
        self.reference = ReferenceLearner(self.spec, given, "float64") if team.rank == 0 else None

    def rungs(self) -> Iterator[Rung]:
        """At rank 0; the others make the same updates and yield nothing."""
        learner, lr, made = self.learner, self.spec.hyper.learning_rate, 0
        for goal in TEAM_UPDATES:
            for _ in range(made, goal):
                batch = synthetic_batch(self.spec, self.rng, self.stored, self.index_dtype, ROWS)
                learner.read(learner.update(learner.put(*self.shard(batch)), lr))
                if self.reference is not None:
                    self.reference.update(doubles(batch), lr)
            made = goal
            if self.reference is not None:
                yield from self.compared(goal, learner.state(), self.reference.state())
        gathered = self.team.link.gather(packed(learner.state()))
        if gathered is not None:
            yield self.rung(EQUAL, unequal(gathered, self.stored))

    def compared(self, goal: int, state: Any, right: Any) -> Iterator[Rung]:
        yield self.rung("weights after {}".format(goal), worst(right["params"], state["params"]))
        together = self.stored == "float32"
        yield self.rung("optimiser after {}".format(goal), moments(right, state, together))

    def shard(self, batch: Any) -> List[np.ndarray]:
        """Rows of this rank; noise of a network is not by rows, and the same for all."""
        rows = ROWS // self.team.size
        own = slice(self.team.rank * rows, (self.team.rank + 1) * rows)
        return [array[own] if len(array) == ROWS else array for array in batch]

    def rung(self, name: str, difference: Difference) -> Rung:
        found = Rung(name, self.dtype, difference.error, self.limits[name])
        label = team_label(self.team.size)
        return replace(found, name=label + name, detail="" if found.passed else difference.detail)


def clipping_half(spec: Spec, params: Params) -> Spec:
    """The same with a limit in the middle of the gradients' norms."""
    reference, rng = ReferenceLearner(spec, params, "float64"), np.random.default_rng(2)
    norms = []
    for _ in range(MEASURED):
        raw = reference.grads(synthetic_batch(spec, rng, "float64", "int64", ROWS))[1]
        norms.append(math.sqrt(sum(float(np.sum(array**2)) for array in raw.values())))
    return replace(spec, hyper=replace(spec.hyper, max_grad_norm=float(np.median(norms))))


def packed(state: Any) -> bytes:
    """Weights and moments, to the last bit."""
    return b"".join(array.tobytes() for key in ("params", "m", "v") for array in state[key].values())


def unequal(gathered: List[bytes], dtype: str) -> Difference:
    """Between rank 0 and the first rank that holds something else."""
    first = np.frombuffer(gathered[0], dtype)
    for rank, data in enumerate(gathered):
        if data != gathered[0]:
            other = np.frombuffer(data, dtype)
            error = between(first, other, name="worker {}".format(rank)).error
            count = len(first) if len(other) != len(first) else int(np.sum(other != first))
            words = "worker {} holds other numbers than worker 0: {} of {}"
            return Difference(error or math.inf, words.format(rank, count, len(first)))
    return Difference(0.0)
