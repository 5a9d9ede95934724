"""From the name of a backend, as a job carries it, to the module."""

from __future__ import annotations

import importlib
from typing import Any, Mapping


def load_backend(name: str, room: str = "backends") -> Any:
    """`torch_` of `rldyno_rig.backends`, or of another room with one module per framework."""
    return importlib.import_module("rldyno_rig.{}.{}".format(room, name))


def backend_name(job: Mapping[str, Any]) -> str:
    """The toolchain's `backend`; jobs written before they carried it name only the framework."""
    return str(job.get("backend") or job["framework"] + "_")
