"""Libraries that only reports need, imported when they are first used."""

from __future__ import annotations

import importlib
from typing import Any

from rldyno.libraries import needed_for


class Library:
    """Stands for a module: reading the first attribute imports it, or reports how to install it."""

    def __init__(self, module: str, purpose: str) -> None:
        self._module = module
        self._purpose = purpose

    def __getattr__(self, name: str) -> Any:
        with needed_for(self._purpose):
            return getattr(importlib.import_module(self._module), name)


alt: Any = Library("altair", "charts")
vl_convert: Any = Library("vl_convert", "HTML reports and pictures")
jinja2: Any = Library("jinja2", "HTML reports")
