"""An algorithm is one value: everything the lab, the proofs and the backends must know about it.

`algorithms/<name>.py` makes it. Registries, limits, proofs, studies and names in reports derive from it. A
framework computes one loss function for it, which is proven against the one in `reference/losses.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable, Dict, Mapping, NamedTuple, Optional, Tuple, Type

import numpy as np

from rldyno_rig.backends.contract import Agent
from rldyno_rig.envs.atari_rules import is_preprocessed
from rldyno_rig.envs.environment import Environment
from rldyno_rig.hyper import MLP, to_json, tuples
from rldyno_rig.parts.streams import Streams
from rldyno_rig.recorder import Recorder
from rldyno_rig.spec import ADAM, Head, Network, Spec
from rldyno_rig.synthetic import Draw


class Job(NamedTuple):
    """What a train loop works with. The learner is the only part that differs between contestants."""

    spec: Spec
    env: Environment
    learner: Agent
    streams: Streams
    recorder: Recorder
    dtype: np.dtype
    index_dtype: np.dtype


def many_of(learner: Agent, count: int) -> Optional[Callable[[Any, float], Any]]:
    """The learner's `update_many`, where it has one, there are several updates to make at once, and no others
    with whom it averages each gradient.
    """
    alone = getattr(learner, "average", None) is None
    return getattr(learner, "update_many", None) if count > 1 and alone else None


class Variant(NamedTuple):
    """A form of the algorithm that is proven beside the plain one, so that every branch of a loss is."""

    label: str
    changes: Mapping[str, Any]
    """Hyper-parameters that differ from the plain form's."""
    networks: Tuple[str, ...] = (MLP,)
    """Kinds of networks it is proven with; what it changes rarely depends on them."""


@dataclass(frozen=True)
class Algorithm:
    name: str
    """As studies, trials and certificates write it, and as backends name its loss."""
    title: str
    """As reports write it."""
    hyper: Type[Any]
    """Dataclass of its hyper-parameters."""
    batch: Type[Any]
    """NamedTuple of the host arrays that one update consumes."""
    head: Callable[[Any], Head]
    """Hyper-parameters → heads of the network. They decide what `act` consumes and returns."""
    synthetic: Callable[[Draw], Any]
    """A batch of plausible numbers: for warming up, for proofs, and for timing updates alone."""
    rows: Callable[[Any], int]
    """Hyper-parameters → rows of one update."""
    at_once: Callable[[Spec], int] = lambda spec: 1
    """Updates whose batches the loop makes at once: what one call of `update_many` gets."""
    train: Optional[Callable[[Job], int]] = None
    """Runs until a budget is reached, returns the environment steps taken; None: no agent, only timed."""
    target_passes: Callable[[Any], int] = lambda hyper: 0
    """Hyper-parameters → forward passes of one update over the next observations."""
    optimiser: str = ADAM
    image_dtype: str = "uint8"
    """Of observations that are images."""
    tuned: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Environment → values tuned on numpy:eager to solve it (docs/learning.md has the evidence)."""
    atari: Mapping[str, Any] = field(default_factory=dict)
    """Values for Atari games, as published for them."""
    generic: Mapping[str, Any] = field(default_factory=dict)
    """Values for every other environment: usual ones, where the defaults of the fields are not."""
    proof: Mapping[str, Any] = field(default_factory=dict)
    """Hyper-parameters of the forms that are proven, where the defaults prove too little or too slowly."""
    variants: Tuple[Variant, ...] = ()

    def chosen_for(self, environment: str) -> Optional[Mapping[str, Any]]:
        """Values that were tuned or published for this environment; None where it gets the generic ones."""
        if environment in self.tuned:
            return self.tuned[environment]
        return self.atari or None if is_preprocessed(environment) else None

    def defaults(self, environment: str) -> Any:
        """The shipped hyper-parameters."""
        chosen = self.chosen_for(environment)
        return self.hyper(**(self.generic if chosen is None else chosen))

    def hyper_from_json(self, values: Mapping[str, Any]) -> Any:
        """JSON's lists become tuples again; an unknown field is an error."""
        return self.hyper(**{name: tuples(value) for name, value in values.items()})

    def completed(self, values: Mapping[str, Any]) -> Dict[str, Any]:
        """Recorded hyper-parameters with the fields that came later: their defaults do what was done then."""
        return {**to_json(self.hyper()), **values}

    def spec(
        self, hyper: Any, observation_shape: Tuple[int, ...], observation_dtype: str, actions: int
    ) -> Spec:
        """What a learner computes on an environment with these observations and actions."""
        shape = tuple(observation_shape)
        if len(shape) == 3 and not hyper.convolutions:
            raise ValueError("observations of shape {} are images: give `convolutions`".format(shape))
        if len(shape) != 3 and hyper.convolutions:
            raise ValueError("`convolutions` given, but observations have shape {}".format(shape))
        head = self.head(hyper)
        network = Network(
            observation_shape=shape,
            observation_dtype=observation_dtype,
            actions=actions,
            convolutions=hyper.convolutions,
            hidden=hyper.hidden,
            activation=hyper.activation,
            head=head.kind,
            atoms=head.atoms,
            support=head.support,
            dueling=head.dueling,
            noisy=head.noisy,
            shared=head.shared,
        )
        return Spec(self.name, network, hyper, self.optimiser, self.batch)


Registry = Dict[str, Algorithm]
