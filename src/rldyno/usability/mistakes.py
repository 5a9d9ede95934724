"""Error quality: what a user sees of three standard mistakes, made for real in a program of a few lines."""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rldyno.processes.rig import Ended
from rldyno.toolchains.catalogue import Toolchain
from rldyno.toolchains.resolve import Interpreter
from rldyno.usability.frameworks import Mistake
from rldyno.usability.process import private_paths, start, without_paths

Json = dict[str, Any]
# Each program multiplies [2, 3] by [4, 5], float64 by float32, or an array by one on a GPU that is not there.
# A good message names both sides of the mistake: the sizes, the types, the device and what there is.
SIDES = {
    "shape": (r"(?<!\d)3(?!\d)", r"(?<!\d)4(?!\d)"),
    "dtype": (r"float64|double", r"float32|float(?!\d)"),
    "device": (r"cuda|gpu|cupy", r"cpu"),
}
_WARNS = re.compile(r"^(WARNING|ERROR)\b|Warning: ")
LONGEST_MESSAGE = 1_000
_BEGIN = "Traceback (most recent call last):"


def make(kind: str, mistake: Mistake, interpreter: Interpreter, chain: Toolchain, directory: Path) -> Json:
    script = directory / "mistake.py"
    script.write_text(mistake.code.lstrip(), encoding="utf-8")
    ended = start(interpreter, chain, [script.name], directory)
    return classify(kind, ended, private_paths(directory, interpreter))


def classify(kind: str, ended: Ended, hidden: Sequence[Path]) -> Json:
    """The verdict, the message verbatim but for the paths in `hidden`, and how long a traceback it ends.

    refused: an exception; warned: it ran, with a word of warning; accepted: it ran; crashed.
    """
    found: Json = {"type": None, "message": None, "names": None, "traceback_lines": None, "result": None}
    if ended.code is None or ended.code < 0:
        how = "it hung" if ended.code is None else signal.Signals(-ended.code).name
        return {**found, "verdict": "crashed", "message": how}
    if ended.code == 0:
        warned = warning(kind, ended.err)
        verdict = "accepted" if warned is None else "warned"
        message = None if warned is None else without_paths(warned, hidden, LONGEST_MESSAGE)
        return {**found, "verdict": verdict, "message": message, "result": last_line(ended.out)}
    kind_of_error, text, lines = exception(ended.err)
    message = without_paths(text, hidden, LONGEST_MESSAGE)
    return {
        **found,
        "verdict": "refused",
        "type": kind_of_error,
        "message": message,
        "names": sum(bool(re.search(side, message, re.IGNORECASE)) for side in SIDES[kind]),
        "traceback_lines": lines,
    }


def warning(kind: str, err: str) -> str | None:
    """The first line that warns of the mistake; frameworks warn of other things too."""
    about = re.compile("|".join((kind, *SIDES[kind])), re.IGNORECASE)
    lines = (line for line in err.splitlines() if _WARNS.search(line) and about.search(line))
    return next(lines, None)


def exception(err: str) -> tuple[str, str, int]:
    """(type, message, lines from the first line of the traceback to the end) of what Python printed."""
    lines = err.rstrip().splitlines()
    begins = [index for index, line in enumerate(lines) if line == _BEGIN]
    if not begins:
        return "", err.strip(), len(lines)
    after = range(begins[-1] + 1, len(lines))
    head = next((index for index in after if lines[index][:1] not in (" ", "")), len(lines) - 1)
    name, *first = lines[head].split(":", maxsplit=1)
    message = "\n".join([*first, *lines[head + 1 :]]).strip()
    return name.rpartition(".")[2], message, len(lines) - begins[0]


def last_line(text: str) -> str | None:
    lines = text.strip().splitlines()
    return lines[-1].strip() if lines else None
