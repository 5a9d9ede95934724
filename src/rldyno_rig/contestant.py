"""A contestant: a framework in one of its execution modes, written `framework:mode`.

A framework may be one release of it: `jax@0.7.0:jit`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

RELEASE_SIGN = "@"
WHEEL = ".whl"
"""How a release that is given as a file ends."""
# Only the path of a wheel may hold colons.
_NAME = re.compile(r"([^:@]*(?:@(?:.*\.whl|[^:]*))?)(?::(.*))?", re.DOTALL)


@dataclass(frozen=True, order=True)
class Contestant:
    framework: str
    """The name of its toolchain: `jax`, or a release of it, `jax@0.7.0`."""
    mode: str

    @staticmethod
    def parse(text: str) -> Contestant:
        """`torch:eager` → Contestant("torch", "eager"); the mode is empty where none is named."""
        framework, mode = _NAME.fullmatch(text).groups()  # type: ignore[union-attr]  # it matches every text
        return Contestant(framework, mode or "")

    def __str__(self) -> str:
        return "{}:{}".format(self.framework, self.mode)

    @property
    def family(self) -> str:
        """The framework without its release: `jax`."""
        return self.framework.partition(RELEASE_SIGN)[0]

    @property
    def release(self) -> str:
        """`0.7.0`; empty for the pin of the toolchain."""
        return self.framework.partition(RELEASE_SIGN)[2]

    @property
    def file_name(self) -> str:
        """For files and directories: `torch-eager`, `jax-0.7.0-jit`."""
        return "{}-{}".format(safe_name(self.framework), self.mode)


def safe_name(framework: str) -> str:
    """For files and directories: `jax-0.7.0`."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", framework)
