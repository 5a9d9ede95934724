"""Several learners of one spec that decide together: a loop calls them as if they were one.

They share a replay memory, not their weights: each has its own initial ones and its own batches. A call is a
call of each member, one after the other; phases, calls and updates are counted per member.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Sequence, Tuple, cast

import numpy as np

from rldyno_rig.backends.contract import Agent, Host, Learner, Placed, Reading, State, VotingLearner
from rldyno_rig.spec import Spec

MEAN, MAJORITY = "mean", "majority"
VECTORS = ("params", "target", "m", "v")


def mean(values: Sequence[np.ndarray]) -> np.ndarray:
    """The best action by the mean of the members' values, `[rows, actions]` each.

    Their sum has the same best action.
    """
    best: np.ndarray = sum(values[1:], values[0]).argmax(1)
    return best


def majority(choices: Sequence[np.ndarray], actions: int) -> np.ndarray:
    """The action that most members chose, `[rows]` each; of several the lowest."""
    votes = (np.stack(choices)[:, :, None] == np.arange(actions)).sum(0)
    most: np.ndarray = votes.argmax(1)
    return most


class Ensemble:
    """Fulfils what a loop needs of a learner.

    Weights in `state` begin with the number of their member: `2.torso.dense0.w`.
    """

    def __init__(self, members: Sequence[VotingLearner], vote: str, actions: int, index_dtype: str) -> None:
        """`actions`: how many there are; those that it returns have the type `index_dtype`."""
        self.members = tuple(members)
        self.by_values = vote == MEAN
        self.actions, self.index_dtype = actions, np.dtype(index_dtype)

    def put(self, *arrays: np.ndarray) -> Placed:
        """The same arrays for every member, each of which has places of its own: what `act` is given."""
        return ([member.put(*arrays) for member in self.members],)

    def put_each(self, *batches: Host) -> Placed:
        """A batch for each member: what `update` is given."""
        return [member.put(*batch) for member, batch in zip(self.members, batches)]

    def act(self, obs: Any, noise: Any = None) -> Host:
        return (self.decide(self.ballots(obs)),)

    def ballots(self, obs: Any) -> List[np.ndarray]:
        """What each member returns: its values where they are averaged, else its greedy actions."""
        if self.by_values:
            return [member.values(*placed)[0] for member, placed in zip(self.members, obs)]
        return [member.act(*placed)[0] for member, placed in zip(self.members, obs)]

    def decide(self, ballots: Sequence[np.ndarray]) -> np.ndarray:
        chosen = mean(ballots) if self.by_values else majority(ballots, self.actions)
        return chosen.astype(self.index_dtype, copy=False)

    def update(self, batch: Any, lr: float) -> List[Any]:
        return [member.update(placed, lr) for member, placed in zip(self.members, batch)]

    def read(self, handle: List[Any]) -> Reading:
        """The mean of the members' losses: one that is not finite shows in it."""
        losses = [member.read(one)[0] for member, one in zip(self.members, handle)]
        return sum(losses) / len(losses), None

    def sync_target(self) -> None:
        for member in self.members:
            member.sync_target()

    def drain(self) -> None:
        for member in self.members:
            member.drain()

    def state(self) -> State:
        states = [member.state() for member in self.members]
        vectors: Dict[str, Any] = {
            key: {
                _name(k, name): array for k, state in enumerate(states) for name, array in state[key].items()
            }
            for key in VECTORS
        }
        return {**vectors, "t": states[0]["t"]}

    def load(self, state: State) -> None:
        for k, member in enumerate(self.members):
            start = _name(k, "")
            own = {
                key: {
                    name[len(start) :]: array for name, array in state[key].items() if name.startswith(start)
                }
                for key in VECTORS
            }
            member.load({**own, "t": state["t"]})


def _name(member: int, name: str) -> str:
    return "{}.{}".format(member, name)


def size_of(hyper: Any) -> int:
    """Members of the ensemble that these hyper-parameters ask for; 1 of algorithms that have none."""
    return int(getattr(hyper, "members", 1))


def assembled(spec: Spec, make: Callable[[], Learner], index_dtype: str) -> Agent:
    """What `make` makes or, of several members, an ensemble of what it makes so many times."""
    count = size_of(spec.hyper)
    if count == 1:
        return make()
    members = [cast(VotingLearner, make()) for _ in range(count)]
    return Ensemble(members, spec.hyper.vote, spec.network.actions, index_dtype)


def members_of(agent: Agent) -> Tuple[Agent, ...]:
    return agent.members if isinstance(agent, Ensemble) else (agent,)


def acted_once(agent: Agent, placed: Placed) -> Host:
    """Act; what one network returned for it: the action or, of an ensemble, the first member's ballot."""
    if not isinstance(agent, Ensemble):
        return agent.act(*placed)
    ballots = agent.ballots(*placed)
    agent.decide(ballots)
    return (ballots[0],)
