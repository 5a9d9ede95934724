"""From the name that a job carries to the module that knows its framework."""

from __future__ import annotations

import importlib
from typing import Any, Mapping


def backend_name(job: Mapping[str, Any]) -> str:
    """The toolchain's `backend`; jobs written before they carried it name only the framework."""
    return str(job.get("backend") or job["framework"] + "_")


def load_backend(job: Mapping[str, Any], room: str = "backends") -> Any:
    """`torch_` of `rldyno_rig.backends`, or of another room with one module per framework."""
    return importlib.import_module("rldyno_rig.{}.{}".format(room, backend_name(job)))
