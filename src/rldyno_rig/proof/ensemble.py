"""Does an ensemble of a backend's learners end where as many reference learners end, and decide as they do?

Members that shared a buffer, a compiled program's state or a batch would end with each other's weights.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Callable, List, Sequence

import numpy as np

from rldyno_rig.algorithms.ensemble import MAJORITY, MEAN, Ensemble, size_of
from rldyno_rig.backends.contract import Agent
from rldyno_rig.proof.difference import Difference, between, worst
from rldyno_rig.proof.promises import Promises
from rldyno_rig.reference.learner import ReferenceLearner
from rldyno_rig.reference.losses import expected
from rldyno_rig.reference.network import q_values
from rldyno_rig.spec import Params, Spec

MEMBERS = 3
"""Of the ensemble that is proven, whatever the size of the trial's: with three a majority is none of two."""


class EnsembleClimb:
    """Members and references with the same weights, and a batch for each of them in every round."""

    def __init__(
        self,
        spec: Spec,
        make: Callable[[Params], Any],
        given: Sequence[Params],
        index_dtype: str,
        promises: Promises,
    ) -> None:
        """`make(params)` builds a member; `given` are the weights of all, rounded as members store them."""
        self.spec, self.index_dtype, self.promises = spec, index_dtype, promises
        self.members = [make(params) for params in given]
        self.ensemble = self._voting(MEAN)
        self.references = [ReferenceLearner(spec, params, "float64") for params in given]

    def learned(self, rounds: Sequence[Sequence[Any]], doubles: Callable[[Any], Any]) -> List[Difference]:
        """Each round has a batch for every member; target networks follow the first one.

        The differences of loss, weights, target weights and moments.
        """
        lr, differences = self.spec.hyper.learning_rate, []
        for batches in rounds:
            handle = self.ensemble.update(self.ensemble.put_each(*batches), lr)
            losses = [ref.update(doubles(own), lr)[0] for ref, own in zip(self.references, batches)]
            got = self.ensemble.read(handle)[0]
            differences.append(between(sum(losses) / len(losses), got, name="mean loss"))
            if batches is rounds[0]:
                self.ensemble.sync_target()
                for reference in self.references:
                    reference.sync_target()
        right, state = expected_state(self.references), self.ensemble.state()
        differences += [worst(right[key], state[key]) for key in ("params", "target", "m", "v")]
        return [*differences, between(right["t"], state["t"], name="t")]

    def decided(self, obs: np.ndarray) -> List[Difference]:
        """Values of each member, and what both votes make of them, by the members' weights now."""
        references = [ReferenceLearner(self.spec, one.state()["params"], "float64") for one in self.members]
        right = [action_values(self.spec, reference, obs) for reference in references]
        differences = []
        for k, (member, values) in enumerate(zip(self.members, right)):
            got = member.values(*member.put(obs))
            self.promises.check_values(values, got)
            differences.append(between(values, got[0], name="values of member {}".format(k)))
        for vote, actions in ((MEAN, by_mean(right)), (MAJORITY, by_majority(right))):
            agent: Agent = self._voting(vote)
            (got,) = agent.act(*agent.put(obs))
            difference = between(actions, got, name="action by " + vote)
            wrong = not np.array_equal(actions, got)
            differences.append(difference._replace(error=float("inf")) if wrong else difference)
        return differences

    def _voting(self, vote: str) -> Ensemble:
        return Ensemble(self.members, vote, self.spec.network.actions, self.index_dtype)


def proven_members(hyper: Any) -> int:
    return min(MEMBERS, size_of(hyper))


def expected_state(references: Sequence[ReferenceLearner]) -> Any:
    """Of all of them, with the names that an ensemble gives."""
    states = [reference.state() for reference in references]
    vectors = {
        key: {"{}.{}".format(k, name): a for k, state in enumerate(states) for name, a in state[key].items()}
        for key in ("params", "target", "m", "v")
    }
    return {**vectors, "t": states[0]["t"]}


def action_values(spec: Spec, reference: ReferenceLearner, obs: np.ndarray) -> np.ndarray:
    return expected(spec, q_values(spec.network, reference.forward(obs, None)))


def by_mean(values: Sequence[np.ndarray]) -> np.ndarray:
    best: np.ndarray = np.mean(values, 0).argmax(1)
    return best


def by_majority(values: Sequence[np.ndarray]) -> np.ndarray:
    """Counted one by one; of several that got most votes the lowest."""
    chosen = []
    for row in zip(*(own.argmax(1).tolist() for own in values)):
        votes = Counter(row)
        chosen.append(min(votes, key=lambda action: (-votes[action], action)))
    return np.array(chosen)
