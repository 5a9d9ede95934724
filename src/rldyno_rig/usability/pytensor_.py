"""PyTensor: NumPy's `savez` of what shared variables hold, and pickled functions."""

from __future__ import annotations

import functools
from typing import Any, Callable, Dict

from rldyno_rig.backends.pytensor_ import pytensor
from rldyno_rig.usability import plain_loop, shared_variables
from rldyno_rig.usability.boards import tensorboardx

SAVED_BY = shared_variables.SAVED_BY
board = tensorboardx
BATCHES: Dict[str, Callable[..., Any]] = {"numpy": plain_loop.batches}
EXPORTS: Dict[str, Callable[..., Any]] = {"pickle": shared_variables.pickled_function}

save = functools.partial(shared_variables.save, pytensor.shared)
load = functools.partial(shared_variables.load, pytensor.shared)
