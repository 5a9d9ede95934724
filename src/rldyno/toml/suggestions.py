"""What a person may have meant by a name that does not exist."""

from __future__ import annotations

import re
from collections.abc import Iterable

SHORTEST_PREFIX = 3
"""Characters of a name that must be typed before its start alone stands for it."""


def suggest(name: str, known: Iterable[str]) -> str:
    """What follows "unknown …": the name that was meant, or all names if they are few."""
    known = list(known)
    meant = nearest(name, known)
    if meant:
        return did_you_mean([meant])
    return f"; known: {', '.join(known)}" if len(known) <= 12 else ""


def did_you_mean(names: Iterable[str]) -> str:
    return f", did you mean {' or '.join(repr(name) for name in names)}?"


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that differs by a slip of the fingers, the only one that starts like this, or the
    only one within it (`pytorch`).

    One edit is a slip, two from eight letters on, and so on: a short name that shares two letters with
    another (`sac`, `a2c`) is another name.
    """
    plain = {_plain(candidate): candidate for candidate in known}
    given = _plain(name)
    if given in plain:
        return plain[given]
    edits = {candidate: distance(given, candidate) for candidate in plain}
    closest = min(edits, key=lambda candidate: edits[candidate], default=None)
    if closest is not None and edits[closest] <= max(1, len(given) // 4):
        return plain[closest]
    starting = [candidate for candidate in plain if candidate.startswith(given)]
    if len(starting) == 1 and len(given) >= SHORTEST_PREFIX:
        return plain[starting[0]]
    within = [candidate for candidate in plain if candidate in given and len(candidate) > SHORTEST_PREFIX]
    return plain[within[0]] if len(within) == 1 else None


def distance(one: str, other: str) -> int:
    """Letters inserted, deleted, replaced or swapped with their neighbour that turn one into the other."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for at, letter in enumerate(one, start=1):
        before, above, row = row, before, [at]
        for column, wanted in enumerate(other, start=1):
            edits = min(row[-1] + 1, before[column] + 1, before[column - 1] + (letter != wanted))
            swapped = at > 1 and column > 1 and letter == other[column - 2] and one[at - 2] == wanted
            row.append(min(edits, above[column - 2] + 1) if swapped else edits)
    return row[-1]


def _plain(name: str) -> str:
    """Capitals and underscores are no difference."""
    return re.sub(r"_", "", name.lower())
