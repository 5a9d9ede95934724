"""The one exception that reaches a person."""

from __future__ import annotations

import contextlib
import errno
import sys

UNWRITABLE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS}
"""What a write fails with on a disk that is full, or that may only be read."""


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


def problem_of(error: OSError) -> Problem:
    """What the system refused: one message with the path, and what to do about it."""
    what = error.strerror or str(error)
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        fix = "choose a place that you may write to, or change who may"
    elif error.errno in UNWRITABLE:
        fix = "free some space there, or choose another place; then run the same command again"
    else:
        fix = "look at what is there; remove it if it does not belong there"
    verb = "write" if error.errno in UNWRITABLE else "use"
    return Problem(f"cannot {verb} {error.filename or 'the output'}: {what}", fix=fix, code=1)


def print_problem(problem: Problem) -> None:
    lines = [f"rldyno: {problem.message}"]
    if problem.detail:
        lines += [f"  | {line}" for line in problem.detail.splitlines()]
    if problem.fix:
        lines.append(f"fix: {problem.fix}")
    # A path or a log may hold escape sequences: no terminal gets them.
    for line in lines:
        shown = "".join(c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in line)
        with contextlib.suppress(OSError):  # on a full disk, too
            print(shown, file=sys.stderr)
