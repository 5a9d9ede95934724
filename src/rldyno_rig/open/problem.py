"""What an open loop trains on, the same for every framework, and what such a loop offers."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, List, NamedTuple, Protocol, Tuple

import numpy as np

from rldyno_rig.algorithms import ALGORITHMS
from rldyno_rig.algorithms.ensemble import size_of
from rldyno_rig.open.tasks import TASKS, OpenTask
from rldyno_rig.parts.streams import streams
from rldyno_rig.spec import Params, Spec, draw_params

OPEN_ALGORITHMS = ("ppo", "dqn", "a2c")
ENVIRONMENT, ACTING, LEARNING = "environment", "acting", "learning"
PARTS = (ENVIRONMENT, ACTING, LEARNING)
"""Of a loop. One without a policy that acts takes random actions."""
ROUND_STEPS = 64
"""Steps of all environments in one round of DQN."""


class Unsupported(ValueError):
    """No open form of this exists; the message says of what."""


@dataclass(frozen=True)
class Problem:
    algorithm: str
    environment: str
    hyper: Any
    """Of the algorithm's own class, as in the closed division."""
    device: str = "cpu"
    dtype: str = "float32"
    agents: int = 1
    """Agents that are trained side by side, each with its own seed."""
    seed: int = 0
    parts: Tuple[str, ...] = PARTS
    """Parts of the loop that run. Leaving some out shows what they cost."""

    def __post_init__(self) -> None:
        if self.algorithm not in OPEN_ALGORITHMS:
            raise Unsupported(
                "algorithm {!r} has no open form; {} have".format(self.algorithm, OPEN_ALGORITHMS)
            )
        if self.environment not in TASKS:
            raise Unsupported(
                "environment {!r} has no open form; {} have".format(self.environment, ", ".join(TASKS))
            )
        hyper = self.hyper
        if getattr(hyper, "shared", False) or getattr(hyper, "dueling", False) or not hyper.hidden:
            raise Unsupported(
                "the open division has networks with a torso for each head, and no dueling ones"
            )
        if size_of(hyper) > 1:
            raise Unsupported("the open division has no ensembles: members must be 1; use a study")
        if getattr(hyper, "rollout_steps", 0) > self.task.limit:
            raise Unsupported("a rollout is longer than an episode of {} steps".format(self.task.limit))
        if self.algorithm == "ppo" and hyper.environments * hyper.rollout_steps % hyper.minibatches:
            raise Unsupported("a rollout does not divide into {} minibatches".format(hyper.minibatches))

    @property
    def task(self) -> OpenTask:
        return TASKS[self.environment]

    @property
    def spec(self) -> Spec:
        task = self.task
        return ALGORITHMS[self.algorithm].spec(self.hyper, (task.components,), "float32", task.actions)

    def first_weights(self) -> List[Params]:
        """Of each agent: those that the closed division draws for its seed."""
        return [draw_params(self.spec, streams(self.seed + agent).weights) for agent in range(self.agents)]

    def first_states(self, agent: int) -> np.ndarray:
        """[components, environments]."""
        rng = np.random.default_rng((self.seed + agent, 0))
        low, high = (np.array(edge)[:, None] for edge in (self.task.low, self.task.high))
        return rng.uniform(low, high, (self.task.components, self.hyper.environments))


def shipped(algorithm: str, environment: str, **changes: Any) -> Any:
    """The hyper-parameters of the closed division, with these changes."""
    if algorithm not in OPEN_ALGORITHMS:
        raise Unsupported("algorithm {!r} has no open form; {} have".format(algorithm, OPEN_ALGORITHMS))
    return dataclasses.replace(ALGORITHMS[algorithm].defaults(environment), **changes)


def n_step_tables(problem: Problem) -> Tuple[np.ndarray, np.ndarray]:
    """Return and discount of 0, 1 … n steps: every step has the same reward. Rounded as `parts.n_step`."""
    gamma, returned = problem.hyper.gamma, [0.0]
    for k in range(problem.hyper.n_step):
        returned.append(returned[-1] + gamma**k * problem.task.reward)
    return np.array(returned), np.array([gamma**k for k in range(len(returned))])


class Tally(NamedTuple):
    """Episodes that ended since the loop began."""

    episodes: int
    steps: int
    """Steps of those episodes."""


class Loop(Protocol):
    """One problem in one framework. What is measured is `run`, after a first call that compiles."""

    round_steps: int
    """Environment steps of one round, of all agents: a rollout with its updates, or a step with its own."""

    def run(self, rounds: int) -> None:
        """So many rounds; returns when the device has done them."""

    def tally(self) -> Tally:
        """Of all agents."""
