"""How far arrays are from those of the reference, and which of them is farthest."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Optional

import numpy as np

from rldyno_rig.spec import Params


class Difference(NamedTuple):
    error: float
    """Relative; infinite for another shape or name, NaN where a number is not finite."""
    detail: str = ""
    """Where it is, for the person who has to find it: array, index, both numbers."""


def farthest(*differences: Difference) -> Difference:
    """The largest of them; one that is NaN before all others."""
    return max(differences, key=lambda one: math.inf if math.isnan(one.error) else min(one.error, 1e308))


def worst(expected: Params, got: Any, together: bool = False) -> Difference:
    """The largest of all arrays; `together` measures them all on the scale of the largest one."""
    if not isinstance(got, dict):
        return Difference(math.inf, "{} instead of arrays by name".format(type(got).__name__))
    if list(expected) != list(got):
        return Difference(math.inf, _names(list(expected), list(got)))
    scale = max(float(np.max(np.abs(array))) for array in expected.values()) if together else None
    return farthest(*(between(expected[name], got[name], scale, name) for name in expected))


def between(expected: Any, got: Any, scale: Optional[float] = None, name: str = "") -> Difference:
    """max |got − expected| / max |expected|, or / `scale`."""
    expected, got = np.asarray(expected, np.float64), np.asarray(got, np.float64)
    if expected.shape != got.shape:
        return Difference(math.inf, "{} has the shape {}, not {}".format(name, got.shape, expected.shape))
    for array, whose in ((got, ""), (expected, " in the reference")):
        if not np.isfinite(array).all():
            return Difference(math.nan, "{} is not finite{}".format(name, whose))
    if not expected.size:
        return Difference(0.0)
    distances = np.abs(got - expected)
    index = np.unravel_index(int(distances.argmax()), distances.shape)
    place = "[{}]".format(", ".join(map(str, index))) if index else ""
    detail = "{}{} is {:.10g} instead of {:.10g}".format(name, place, got[index], expected[index])
    if scale is None:
        scale = float(np.max(np.abs(expected)))
    return Difference(float(distances[index]) / (scale or 1.0), detail)


def _names(expected: Any, got: Any) -> str:
    missing, unknown = [n for n in expected if n not in got], [n for n in got if n not in expected]
    parts = [
        words.format(", ".join(names))
        for words, names in (("no {}", missing), ("unknown: {}", unknown))
        if names
    ]
    return "; ".join(parts) or "the arrays are in another order: {}".format(", ".join(got))
