"""Toolchains: isolated Python environments that hold one framework each, or interpreters the user has."""

from rldyno.toolchains.build import Progress, build
from rldyno.toolchains.catalogue import Toolchain, catalogue, peers, toolchain
from rldyno.toolchains.resolve import Interpreter, ensure, parse_overrides, resolve
from rldyno.toolchains.store import Built

__all__ = [
    "Built",
    "Interpreter",
    "Progress",
    "Toolchain",
    "build",
    "catalogue",
    "ensure",
    "parse_overrides",
    "peers",
    "resolve",
    "toolchain",
]
