"""From the name of a backend, as a job carries it, to the module."""

from __future__ import annotations

import importlib
from typing import Any

from rldyno_rig.backends.contract import Backend


def load_backend(name: str) -> Backend:
    """The backend, such as `torch_`."""
    backend: Backend = load_beside("backends", name)
    return backend


def load_beside(room: str, name: str) -> Any:
    """The module of this backend's name in a room that has one per framework: `limits`, `usability`."""
    return importlib.import_module("rldyno_rig.{}.{}".format(room, name))
