"""PyTensor: NumPy's `savez` of what shared variables hold, and pickled functions."""

from __future__ import annotations

import functools
from typing import Any, Callable, Dict

from rldyno_rig.backends.pytensor_ import pytensor
from rldyno_rig.usability import shared_variables

SAVED_BY = shared_variables.SAVED_BY
EXPORTS: Dict[str, Callable[..., Any]] = {"pickle": shared_variables.pickled_function}

save = functools.partial(shared_variables.save, pytensor.shared)
load = functools.partial(shared_variables.load, pytensor.shared)
