"""The shape in which a trial runs its learner: sizes of network and batches, and the numbers of its loss.

Only the standard library is imported here: the file of a worker's facts holds one.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any, Dict, Mapping, Tuple

from rldyno_rig.hyper import tuples


@dataclass(frozen=True)
class Shape:
    """Two trials of one contestant and algorithm with the same shape compute the same function."""

    observation_shape: Tuple[int, ...]
    observation_dtype: str
    actions: int
    act_rows: int
    """Observations of one `act`: the environments side by side."""
    update_rows: int
    """Rows of one `update`."""
    updates: int
    """Of one call, where the learner has `update_many`."""
    hyper: Tuple[Tuple[Any, ...], ...]
    """(name, value) of each hyper-parameter that the learner computes with, by name."""

    @property
    def members(self) -> int:
        """Of the ensemble that runs in it: 1 without one, and in records of before there were any."""
        return int(dict(self.hyper).get("members", 1))

    @property
    def key(self) -> str:
        """Short and the same for equal shapes, for names of files."""
        text = json.dumps(self.to_json(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:8]

    def to_json(self) -> Dict[str, Any]:
        return {**vars(self), "observation_shape": list(self.observation_shape), "hyper": dict(self.hyper)}

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> Shape:
        """Raises KeyError, TypeError, ValueError or AttributeError: records may come from anybody."""
        shape = Shape(
            observation_shape=tuple(values["observation_shape"]),
            observation_dtype=values["observation_dtype"],
            actions=values["actions"],
            act_rows=values["act_rows"],
            update_rows=values["update_rows"],
            updates=values["updates"],
            hyper=tuple(sorted((name, tuples(value)) for name, value in values["hyper"].items())),
        )
        sizes = (*shape.observation_shape, shape.actions, shape.act_rows, shape.update_rows, shape.updates)
        layers = dict(shape.hyper).get("convolutions") or ()
        hash(shape)
        if any(type(size) is not int for size in sizes) or any(len(layer) != 3 for layer in layers):
            raise ValueError("this is no shape of a trial")
        str(shape)
        return shape

    def __str__(self) -> str:
        """`4 → 64-64 tanh → 2, act 8, update 64 rows (1f0a)`: the main sizes, and how the key begins."""
        values = dict(self.hyper)
        layers = ["{}×{}/{}".format(*layer) for layer in values.get("convolutions") or ()]
        network = "-".join([*layers, *map(str, values.get("hidden") or ())])
        together = " × {} members".format(self.members) if self.members > 1 else ""
        return "{} → {} {} → {}{}, act {}, update {} rows ({})".format(
            "×".join(map(str, self.observation_shape)),
            network,
            values.get("activation", ""),
            self.actions,
            together,
            self.act_rows,
            self.update_rows,
            self.key[:4],
        )
