"""NumPy: `savez`, and nothing to export to."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, Dict

import numpy as np

from rldyno_rig.usability import plain_loop
from rldyno_rig.usability.boards import tensorboardx

SAVED_BY = "numpy.savez"


def save(arrays: Dict[str, Any], path: Path) -> None:
    held: Dict[str, Any] = {name: np.asarray(array) for name, array in arrays.items()}
    np.savez(str(path.with_suffix(".npz")), **held)


def load(path: Path, like: Dict[str, np.ndarray]) -> Dict[str, np.ndarray]:
    with np.load(str(path.with_suffix(".npz")), allow_pickle=False) as file:
        return dict(file)


board = tensorboardx
BATCHES: Dict[str, Callable[..., Any]] = {"numpy": plain_loop.batches}
EXPORTS: Dict[str, Callable[..., Any]] = {}
