"""Every contestant that runs on this machine's CPU, in its toolchain."""

from __future__ import annotations

import pytest

from rldyno.toolchains.catalogue import catalogue
from rldyno.toolchains.resolve import Interpreter, ensure


@pytest.fixture(scope="session")
def interpreters() -> dict[str, Interpreter]:
    """Every contestant's interpreter; toolchains that are not built yet are built."""
    return ensure(catalogue())
