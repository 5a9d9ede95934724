"""Whether everything that a learner returns has the type, dtype and shape that the contract promises.

The numbers of a backend may be right while its arrays are those of the framework: every comparison of the
ladder would pass, and the first trial would crash. What the other rungs receive is checked here in passing.
"""

from __future__ import annotations

from typing import Any, Dict, List, Sequence

import numpy as np

from rldyno_rig.spec import Params, Spec, parameter_shapes

ACTED = ("action", "log-probability", "value")
VECTORS = ("params", "target", "m", "v")


class Promises:
    """Collects what is broken, each mistake once, in the order in which it was seen."""

    def __init__(self, spec: Spec, stored: str, rows: int) -> None:
        self.shapes = {name: tuple(shape) for name, shape in parameter_shapes(spec.network).items()}
        self.stored, self.rows = np.dtype(stored), rows
        self.broken: List[str] = []
        self._kept: List[Any] = []

    def check_put(self, given: Sequence[Any], placed: Any) -> None:
        if not hasattr(placed, "__len__") or len(placed) != len(given):
            self._say("put does not return one array for each that it was given")

    def check_acted(self, expected: Sequence[np.ndarray], got: Any) -> None:
        if not isinstance(got, tuple):
            self._say("act returns {}, not a tuple".format(_kind(got)))
        elif len(got) != len(expected):
            self._say("act returns {} arrays, not {}".format(len(got), len(expected)))
        else:
            for name, right, array in zip(ACTED, expected, got):
                kind = np.integer if name == "action" else self.stored
                self._array("act: " + name, array, right.shape, kind)

    def check_values(self, expected: np.ndarray, got: Any) -> None:
        if not isinstance(got, tuple) or len(got) != 1:
            self._say("values returns {}, not a tuple of one array".format(_kind(got)))
        else:
            self._array("values", got[0], expected.shape, self.stored)

    def check_read(self, got: Any, priorities: bool) -> None:
        if not isinstance(got, tuple) or len(got) != 2:
            self._say("read returns {}, not a tuple of loss and priorities".format(_kind(got)))
            return
        self._number("read: the loss", got[0])
        if priorities:
            self._array("read: priorities", got[1], (self.rows,), np.floating)
        elif got[1] is not None:
            self._say(
                "read: priorities are {}, but the algorithm has none: return None".format(_kind(got[1]))
            )

    def check_state(self, got: Any) -> None:
        """Types, and that arrays of an earlier state have not changed since: they are the caller's own."""
        if not isinstance(got, dict) or set(got) != {*VECTORS, "t"}:
            self._say("state does not return a dict of params, target, m, v and t")
            return
        if not isinstance(got["t"], (int, np.integer)):
            self._say("state: t is {}, not an int".format(_kind(got["t"])))
        for key in VECTORS:
            self._named("state: {}".format(key), got[key], self.shapes)
        for name, array, copy in self._kept:
            if not np.array_equal(array, copy):
                self._say("state: {} changed after it was returned; return copies".format(name))
        arrays = [(key + "." + name, array) for key in VECTORS for name, array in dict(got[key]).items()]
        self._kept = [(name, array, array.copy()) for name, array in arrays if isinstance(array, np.ndarray)]

    def check_forward(self, expected: Params, got: Any) -> None:
        self._named("forward", got, {name: array.shape for name, array in expected.items()})

    def check_grads(self, got: Any) -> None:
        if not isinstance(got, tuple) or len(got) != 3:
            self._say(
                "grads returns {}, not a tuple of loss, gradients and clipped gradients".format(_kind(got))
            )
            return
        self._number("grads: the loss", got[0])
        self._named("grads: gradients", got[1], self.shapes)
        self._named("grads: clipped gradients", got[2], self.shapes)

    def _named(self, what: str, got: Any, shapes: Dict[str, Any]) -> None:
        if not isinstance(got, dict):
            self._say("{} is {}, not a dict of arrays by name".format(what, _kind(got)))
            return
        for name in shapes.keys() & got.keys():
            self._array("{}: {}".format(what, name), got[name], shapes[name], self.stored)

    def _array(self, what: str, got: Any, shape: Any, kind: Any) -> None:
        if not isinstance(got, np.ndarray):
            self._say("{} is {}, not a NumPy array".format(what, _kind(got)))
        elif not (np.issubdtype(got.dtype, kind) if isinstance(kind, type) else got.dtype == kind):
            wanted = {np.integer: "integer", np.floating: "floating-point number"}.get(kind, kind)
            self._say("{} has the dtype {}, not {}".format(what, got.dtype, wanted))
        elif got.shape != tuple(shape):
            self._say("{} has the shape {}, not {}".format(what, got.shape, tuple(shape)))

    def _number(self, what: str, got: Any) -> None:
        if not isinstance(got, (float, np.floating)):
            self._say("{} is {}, not a float".format(what, _kind(got)))

    def _say(self, sentence: str) -> None:
        if sentence not in self.broken:
            self.broken.append(sentence)


def _kind(value: Any) -> str:
    """`torch.Tensor`, or plainly `list`."""
    kind = type(value)
    return kind.__name__ if kind.__module__ == "builtins" else kind.__module__ + "." + kind.__name__
