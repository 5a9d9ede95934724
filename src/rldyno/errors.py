"""The one exception that reaches a person."""

from __future__ import annotations

import sys


class Problem(Exception):
    """Something the user can understand and act on.

    `message` is one sentence about what is wrong; `fix` is what to do about it; `detail` holds more lines to
    show below it (the end of a log, the differences of two studies). The command line prints them and
    exits with `code`: 2 for wrong input, 1 for work that failed.
    """

    def __init__(
        self, message: str, *, fix: str | None = None, detail: str | None = None, code: int = 2
    ) -> None:
        super().__init__(message)
        self.message = message
        self.fix = fix
        self.detail = detail
        self.code = code
        # For people who see it in a traceback.
        for note in (detail, fix and f"fix: {fix}"):
            if note:
                self.add_note(note)


def print_problem(problem: Problem) -> None:
    lines = [f"rldyno: {problem.message}"]
    if problem.detail:
        lines += [f"  | {line}" for line in problem.detail.splitlines()]
    if problem.fix:
        lines.append(f"fix: {problem.fix}")
    # A path or a log may hold escape sequences: no terminal gets them.
    for line in lines:
        shown = "".join(c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in line)
        print(shown, file=sys.stderr)
