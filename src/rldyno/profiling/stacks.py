"""Samples of a profiler: the phase each belongs to, and the functions that have most of them."""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import rldyno_rig

LOOP = "rldyno_rig/algorithms/"
"""Files of the training loop, as py-spy shortens their names."""
CALLED = {
    "put": "transfer",
    "act": "act",
    "update": "update",
    "many": "update",
    "drain": "update",
    "sync_target": "update",
    "read": "read",
    "step": "environment",
}
"""Function that a line of the loop calls → the phase that the clock books it on; the rest is `store`."""
REST = "store"
CALL = re.compile(rf"(?<![\w])({'|'.join(CALLED)})\(")
FRAME = re.compile(r"(?P<function>.+) \((?P<file>.+?)(?::(?P<line>\d+))?\)$")


@dataclass(frozen=True)
class Hot:
    """A function that was running: it, or the compiled code that it called."""

    name: str
    """`grad (torch/autograd/__init__.py)`."""
    share: float
    """Of the samples of the phase."""


@dataclass(frozen=True)
class Sample:
    """A stack, the outermost frame first, and how often it was seen."""

    frames: tuple[str, ...]
    count: int


def collapsed(text: str) -> list[Sample]:
    """From lines of `frame;frame;frame count`; others, a torn last one say, are left out."""
    found = []
    for line in text.splitlines():
        stack, _, count = line.rpartition(" ")
        if stack and count.isdigit():
            found.append(Sample(tuple(stack.split(";")), int(count)))
    return found


def by_phase(
    samples: Iterable[Sample], source: Callable[[str, int], str] | None = None
) -> dict[str, Counter[str]]:
    """Phase → innermost function → samples, of the training loop alone. `source` gives a line of a file."""
    line_of = source or rig_line
    found: dict[str, Counter[str]] = {}
    for sample in samples:
        phase = phase_of(sample.frames, line_of)
        if phase is not None:
            found.setdefault(phase, Counter())[without_line(sample.frames[-1])] += sample.count
    return found


def phase_of(frames: Sequence[str], line_of: Callable[[str, int], str]) -> str | None:
    """By what the innermost line of the loop calls; None outside the loop, imports of its files included."""
    inside = [found for frame in frames if (found := FRAME.match(frame)) and found["file"].startswith(LOOP)]
    if not any(found["function"] == "train" for found in inside):
        return None
    last = inside[-1]
    called = CALL.search(line_of(last["file"], int(last["line"] or 0)))
    return CALLED[called[1]] if called else REST


def without_line(frame: str) -> str:
    found = FRAME.match(frame)
    return f"{found['function']} ({found['file']})" if found else frame


def hottest(counts: Counter[str], most: int) -> tuple[Hot, ...]:
    whole = sum(counts.values())
    return tuple(Hot(name, count / whole) for name, count in counts.most_common(most))


def rig_line(file: str, line: int) -> str:
    lines = _rig_lines(file.removeprefix("rldyno_rig/"))
    return lines[line - 1] if 0 < line <= len(lines) else ""


@functools.cache
def _rig_lines(file: str) -> list[str]:
    try:
        return (Path(rldyno_rig.__file__).parent / file).read_text("utf-8").splitlines()
    except OSError:
        return []
