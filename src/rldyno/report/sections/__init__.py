"""The sections of the report: each module here, with the template beside it, is one of them."""

from __future__ import annotations

import importlib
import pkgutil

from rldyno.report.section import Section


def all_sections() -> tuple[Section, ...]:
    """Every section, in the order of the page. A new module is found because it lies here."""
    modules = [
        importlib.import_module(f"{__name__}.{found.name}") for found in pkgutil.iter_modules(__path__)
    ]
    return tuple(sorted((module.SECTION for module in modules), key=lambda section: section.order))
