"""Code in the documentation, to be run by tests."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Block:
    code: str
    runs_trials: bool
    """Marked with `<!-- runs trials -->` above it: it needs a toolchain."""


def python_blocks(text: str) -> list[Block]:
    """The Python code of a page, in its order."""
    found = re.findall(r"(<!-- runs trials -->\n)?```python\n(.*?)```", text, re.DOTALL)
    return [Block(code, bool(mark)) for mark, code in found]
