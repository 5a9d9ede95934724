"""What a proof must show: which rungs, in which precision, with which limit.

The ladder climbs by this list, and certificates are judged by the same list, never by what they say of
themselves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Dict, Optional, Tuple

from rldyno_rig.algorithms import ALGORITHMS
from rldyno_rig.proof.forms import variants
from rldyno_rig.proof.laziness import LIMIT
from rldyno_rig.proof.rung import CONTRACT, MANY, STARTED
from rldyno_rig.spec import Spec

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
    """A rung that every proof has: of these precisions, and of specs for which `of` is true."""

    name: str
    limit: Callable[[str], Limit]
    precisions: Tuple[str, ...] = tuple(GATE)
    of: Callable[[Spec], bool] = lambda spec: True
    optional: bool = False
    """Only learners that have `update_many` have it."""


LADDER = (
    Required("weights", exact),
    Required("forward", gate),
    Required("loss", gate),
    Required("gradients", gate),
    Required("clipped gradients", gate),
    Required("weights after 1", gate),
    Required("optimiser after 1", gate),
    Required("loss returned", gate),
    Required("priorities", gate, of=lambda spec: "weight" in spec.batch._fields),
    Required("target untouched", exact),
    Required("weights after 10", drift),
    Required("optimiser after 10", drift),
    Required("weights after 100", drift),
    Required("optimiser after 100", drift),
    Required("batches untouched", exact),
    Required(MANY, gate, optional=True),
    Required("target synced", exact),
    Required("actions", gate),
    Required("state reloaded", exact),
    Required(CONTRACT, exact),
    Required(STARTED, late, ("float32",)),
    Required("loop", gate, ("float64",), lambda spec: spec.algorithm in ALGORITHMS),
)
"""In the order in which they are climbed."""
RUNGS = tuple(rung.name for rung in LADDER)


def precisions(device: str) -> Tuple[str, ...]:
    """On a GPU the error of TensorFloat-32 is reported too."""
    return ("float64", "float32") if device == "cpu" else ("float64", "float32", "tf32")


def limits(spec: Spec, precision: str, many: bool) -> Dict[str, Limit]:
    """Rung → its limit, of one form in one precision. `many`: of a learner that has `update_many`."""
    return {
        rung.name: rung.limit(precision)
        for rung in LADDER
        if precision in rung.precisions and rung.of(spec) and (many or not rung.optional)
    }


def required(algorithm: str, network: str, device: str, many: bool = False) -> Dict[Tuple[str, str], Limit]:
    """(precision, rung) → its limit: all that a certificate must hold."""
    return {
        (precision, label + name): limit
        for precision in precisions(device)
        for label, spec in variants(algorithm, network)
        for name, limit in limits(spec, precision, many).items()
    }
