"""What Theano and its heir PyTensor have in common: weights in shared variables, functions that pickle."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any, Callable, Dict, Tuple

import numpy as np

SAVED_BY = "numpy.savez of get_value(), set_value() of numpy.load"

Shared = Callable[[Any], Any]


def save(shared: Shared, arrays: Dict[str, Any], path: Path) -> None:
    held: Dict[str, Any] = values({name: shared(array) for name, array in arrays.items()})
    np.savez(str(path.with_suffix(".npz")), **held)


def load(shared: Shared, path: Path, like: Dict[str, np.ndarray]) -> Dict[str, np.ndarray]:
    with np.load(str(path.with_suffix(".npz")), allow_pickle=False) as file:
        return values({name: shared(array) for name, array in file.items()})


def values(variables: Dict[str, Any]) -> Dict[str, np.ndarray]:
    return {name: variable.get_value(borrow=True) for name, variable in variables.items()}


def pickled_function(learner: Any, obs: np.ndarray, directory: Path) -> Tuple[Any, ...]:
    """What the documentation offers for a compiled function: only the framework itself can read it."""
    path = directory / "network.pickle"
    with path.open("wb") as file:
        pickle.dump(learner._forward, file, protocol=pickle.HIGHEST_PROTOCOL)
    with path.open("rb") as file:
        return tuple(pickle.load(file)(obs))  # noqa: S301 (written a moment ago)
