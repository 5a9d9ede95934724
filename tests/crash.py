"""Kills a process right before its n-th change of a file, for every n, and looks what is left.

`try_points` counts the changes of an action in a forked child, then repeats it once for each of them in a
child that is killed there. Killing before change n + 1 is killing after change n: no point is left out.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
CHANGES = {
    "os.rename",
    "os.remove",
    "os.mkdir",
    "os.rmdir",
    "os.truncate",
    "os.link",
    "os.symlink",
    "shutil.rmtree",
}
KILLED, FAILED = -signal.SIGKILL, 70
SAMPLED = 5
"""Points of each case in the unit tests."""


class _Counter:
    """An audit hook cannot be removed: it lives and dies with the forked child."""

    def __init__(self, root: Path, kill_at: int | None, log: Path) -> None:
        self.root, self.kill_at, self.log = str(root), kill_at, log
        self.count = 0
        self.inside = False

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.inside or not self._changes(event, arguments):
            return
        self.inside = True
        if self.count == self.kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        with open(self.log, "a") as stream:  # noqa: PTH123 (no more file operations than needed)
            stream.write(f"{event} {_whole_path(arguments)}\n")
        self.count += 1
        self.inside = False

    def _changes(self, event: str, arguments: tuple[Any, ...]) -> bool:
        if event == "open":
            path, mode, flags = (*arguments, None, None, None)[:3]
            writes = bool(flags and flags & WRITING) or bool(mode and set(str(mode)) & set("wax+"))
            return writes and str(path).startswith(self.root)
        return event in CHANGES and _whole_path(arguments).startswith(self.root)


def _whole_path(arguments: tuple[Any, ...]) -> str:
    """A file may be given by its descriptor, or relative to an open directory, which is the last argument."""
    if isinstance(arguments[0], int):
        return str(Path(f"/proc/self/fd/{arguments[0]}").readlink())
    path = Path(os.fsdecode(arguments[0]))
    if path.is_absolute() or not isinstance(arguments[-1], int) or arguments[-1] < 0:
        return str(path)
    return str(Path(f"/proc/self/fd/{arguments[-1]}").readlink() / path)


def in_child(action: Callable[[], None], root: Path, kill_at: int | None, log: Path) -> int:
    """The exit code of a child that does it; negative is a signal. What goes wrong there is printed."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        code = FAILED
        try:
            os.fsync = lambda descriptor: None  # a kill loses nothing that was written, a power cut does
            sys.addaudithook(_Counter(root, kill_at, log))
            action()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


@dataclass(frozen=True)
class Case:
    """A command that may be killed anywhere. It gets a folder of its own, and changes files below it only."""

    action: Callable[[Path], None]
    flaws: Callable[[Path], list[str]]
    """What is wrong with the folder after the same command has ended."""
    prepare: Callable[[Path], object] = Path.mkdir
    after_kill: Callable[[Path], list[str]] = lambda home: []
    """What is wrong with it right after the kill."""


@dataclass(frozen=True)
class Tried:
    points: int
    tried: int
    bad: list[str]


def try_points(case: Case, folder: Path, everywhere: bool) -> Tried:
    """Kill it at each point, or at some, then run the same command again."""
    counted = folder / "counted"
    case.prepare(counted)
    log = folder / "log"
    assert in_child(lambda: case.action(counted), counted, None, log) == 0
    points = log.read_text().splitlines()
    chosen = range(len(points)) if everywhere else spread(len(points), SAMPLED)
    bad = [f"without a kill: {flaw}" for flaw in case.flaws(counted)]
    for number in chosen:
        home = folder / str(number)
        case.prepare(home)
        before = f"{number} before {points[number].replace(str(counted), '')}"
        code = in_child(lambda home=home: case.action(home), home, number, folder / f"log.{number}")
        assert code == KILLED, (before, code)
        wrong = case.after_kill(home)
        code = in_child(lambda home=home: case.action(home), home, None, folder / "again")
        wrong += ["the same command fails"] if code == FAILED else case.flaws(home)
        bad += [f"{before}: {flaw}" for flaw in wrong]
        if not wrong:
            shutil.rmtree(home)
    return Tried(len(points), len(chosen), bad)


def spread(points: int, most: int) -> list[int]:
    """At most so many of them, at even distances."""
    step = max(1.0, points / most)
    return sorted({int(number * step) for number in range(points) if number * step < points})
