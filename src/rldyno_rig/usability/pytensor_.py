"""PyTensor: NumPy's `savez` of what shared variables hold, and pickled functions."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any, Callable, Dict, Tuple

import numpy as np

from rldyno_rig.backends.pytensor_ import pytensor

SAVED_BY = "numpy.savez of get_value(), set_value() of numpy.load"


def save(arrays: Dict[str, Any], path: Path) -> None:
    shared = {name: pytensor.shared(array) for name, array in arrays.items()}
    values = {name: variable.get_value(borrow=True) for name, variable in shared.items()}
    np.savez(str(path.with_suffix(".npz")), **values)


def load(path: Path, like: Dict[str, np.ndarray]) -> Dict[str, np.ndarray]:
    with np.load(str(path.with_suffix(".npz")), allow_pickle=False) as file:
        shared = {name: pytensor.shared(array) for name, array in file.items()}
    return {name: variable.get_value(borrow=True) for name, variable in shared.items()}


def pickled_function(learner: Any, obs: np.ndarray, directory: Path) -> Tuple[Any, ...]:
    """What the documentation offers for a compiled function: only PyTensor itself can read it."""
    path = directory / "network.pickle"
    with path.open("wb") as file:
        pickle.dump(learner._forward, file, protocol=pickle.HIGHEST_PROTOCOL)
    with path.open("rb") as file:
        return tuple(pickle.load(file)(obs))  # noqa: S301 (written a moment ago)


EXPORTS: Dict[str, Callable[..., Any]] = {"pickle": pickled_function}
