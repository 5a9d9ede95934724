"""What a proof must show: which rungs, in which precision, with which limit.

The ladder climbs by this list, and certificates are judged by the same list, never by what they say of
themselves.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Callable, Dict, Mapping, Optional, Tuple

from rldyno_rig.algorithms import LEARNERS
from rldyno_rig.algorithms.algorithm import Algorithm
from rldyno_rig.hyper import CNN, MLP, NETWORKS
from rldyno_rig.job_files import ProofSubject
from rldyno_rig.proof.forms import variants
from rldyno_rig.proof.laziness import LIMIT
from rldyno_rig.proof.rung import CONTRACT, ENSEMBLE, EQUAL, MANY, OWN_STEP, STARTED
from rldyno_rig.shape import Shape

GATE = {"float64": 1e-10, "float32": 1e-5, "tf32": None}
"""TensorFloat-32 is chosen although it rounds: its error is reported and has no limit."""
UPDATES = (1, 10, 100)

Limit = Optional[float]
"""Largest error; None: it is reported, and has no limit."""


def exact(precision: str) -> Limit:
    return 0.0


def gate(precision: str) -> Limit:
    return GATE[precision]


def drift(precision: str) -> Limit:
    """Rounding grows from update to update: only float64 stays within its gate."""
    return GATE[precision] if precision == "float64" else None


def late(precision: str) -> Limit:
    return LIMIT


@dataclass(frozen=True)
class Required:
    """A rung of every proof, in these precisions, of algorithms for which `of` is true."""

    name: str
    limit: Callable[[str], Limit]
    precisions: Tuple[str, ...] = tuple(GATE)
    of: Callable[[Algorithm], bool] = lambda algorithm: True
    optional: bool = False
    """Only learners that have `update_many` have it."""
    shapes: Mapping[str, Tuple[str, ...]] = field(default_factory=dict)
    """Of a shape's proof, which is shorter: kind of network → precisions."""
    of_shape: Callable[[Shape], bool] = lambda shape: True
    """Shapes whose proof has it."""


TEAM_PRECISIONS = ("float64", "float32")
BOTH = dict.fromkeys(NETWORKS, ("float64", "float32"))
DOUBLE = dict.fromkeys(NETWORKS, ("float64",))
SINGLE = dict.fromkeys(NETWORKS, ("float32",))
# Ten float64 updates of 32 images of 84 × 84 take the reference 5 s and more.
DOUBLE_MLP = {MLP: ("float64",)}
# Random images are much alike, so their terms of a gradient nearly cancel: in float32 2e-5 of it is rounding.
DOUBLE_BOTH_MLP = {CNN: ("float64",), MLP: ("float64", "float32")}

LADDER = (
    Required("weights", exact),
    Required("forward", gate),
    Required("loss", gate),
    Required("gradients", gate),
    Required("clipped gradients", gate),
    Required("weights after 1", gate, shapes=DOUBLE),
    Required("optimiser after 1", gate, shapes=DOUBLE_BOTH_MLP),
    Required(OWN_STEP, gate, precisions=(), shapes=SINGLE),
    Required("loss returned", gate, shapes=BOTH),
    Required("priorities", gate, of=lambda algorithm: "weight" in algorithm.batch._fields, shapes=BOTH),
    Required("target untouched", exact, shapes=BOTH),
    Required("weights after 10", drift, shapes=DOUBLE_MLP),
    Required("optimiser after 10", drift, shapes=DOUBLE_MLP),
    Required("weights after 100", drift),
    Required("optimiser after 100", drift),
    Required("batches untouched", exact, shapes=BOTH),
    Required(MANY, gate, optional=True, shapes=DOUBLE_MLP),
    Required("target synced", exact),
    Required("actions", gate, shapes=BOTH),
    Required("state reloaded", exact),
    Required(ENSEMBLE, gate, precisions=(), shapes=BOTH, of_shape=lambda shape: shape.members > 1),
    Required(CONTRACT, exact, shapes=BOTH),
    Required(STARTED, late, ("float32",)),
    Required("loop", gate, ("float64",), lambda algorithm: algorithm.train is not None),
)
"""In the order in which they are climbed.

A shape's proof has what training calls, `act` and `update`, in the sizes of a study. In float32 it does not
compare weights: Adam's first step is as long as the learning rate whatever the size of a gradient, so among
many thousand weights rounding decides the sign of some. It compares the moments, and the weights with where
these moments lead. A trial whose agent is an ensemble has a shape of its own, and so a rung more.
"""

TEAM_UPDATES = UPDATES
TEAM_LADDER = (
    *(Required("weights after {}".format(goal), drift, TEAM_PRECISIONS) for goal in TEAM_UPDATES),
    Required("optimiser after 1", gate, TEAM_PRECISIONS),
    *(Required("optimiser after {}".format(goal), drift, TEAM_PRECISIONS) for goal in TEAM_UPDATES[1:]),
    Required(EQUAL, exact, TEAM_PRECISIONS),
)
"""Of a collective: the workers' weights against those of the reference, and against each other's."""
RUNGS = tuple(dict.fromkeys(rung.name for rung in (*LADDER, *TEAM_LADDER)))


def precisions(device: str) -> Tuple[str, ...]:
    """On a GPU the error of TensorFloat-32 is reported too."""
    return ("float64", "float32") if device == "cpu" else ("float64", "float32", "tf32")


def limits(subject: ProofSubject, precision: str, many: bool) -> Dict[str, Limit]:
    """Rung → its limit, of one form in one precision. `many`: of a learner that has `update_many`."""
    return {
        rung.name: rung.limit(precision)
        for rung in LADDER
        if precision in (rung.shapes.get(subject.network, ()) if subject.shape else rung.precisions)
        and rung.of(LEARNERS[subject.algorithm])
        and (subject.shape is None or rung.of_shape(subject.shape))
        and (many or not rung.optional)
    }


def of_team(precision: str) -> Dict[str, Limit]:
    """Rung → its limit, of a team of any size in one precision."""
    return {rung.name: rung.limit(precision) for rung in TEAM_LADDER}


def team_sizes(device: str) -> Tuple[int, ...]:
    """Workers of the teams that are proven. With three the order of a sum matters, and the mean rounds; few
    machines have three GPUs.
    """
    return (2, 3) if device == "cpu" else (2,)


def team_label(size: int) -> str:
    return "{} workers: ".format(size)


def required(subject: ProofSubject, device: str, many: bool = False) -> Dict[Tuple[str, str], Limit]:
    """(precision, rung) → its limit: all that a certificate must hold."""
    if subject.collective is not None:
        return {
            (precision, team_label(size) + name): limit
            for size in team_sizes(device)
            for precision in TEAM_PRECISIONS
            for name, limit in of_team(precision).items()
        }
    labels = [""] if subject.shape else [label for label, _ in variants(subject.algorithm, subject.network)]
    return {
        (precision, label + name): limit
        for precision in precisions(device)
        for label in labels
        for name, limit in limits(subject, precision, many).items()
    }
