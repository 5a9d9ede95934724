"""Kills a process right before its n-th change of a file, for every n, and looks what is left.

`crash_points` counts the changes of an action in a forked child, then repeats it once for each of them in a
child that is killed there. Killing before change n + 1 is killing after change n: no point is left out.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
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
            stream.write(f"{event} {arguments[0]}\n")
        self.count += 1
        self.inside = False

    def _changes(self, event: str, arguments: tuple[Any, ...]) -> bool:
        if event == "open":
            path, mode, flags = (*arguments, None, None, None)[:3]
            writes = bool(flags and flags & WRITING) or bool(mode and set(str(mode)) & set("wax+"))
            return writes and str(path).startswith(self.root)
        return event in CHANGES and str(arguments[0]).startswith(self.root)


def in_child(action: Callable[[], None], root: Path, kill_at: int | None, log: Path) -> int:
    """The exit code of a child that does it; negative is a signal. What goes wrong there is printed."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        code = FAILED
        try:
            sys.addaudithook(_Counter(root, kill_at, log))
            action()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def crash_points(action: Callable[[Path], None], folder: Path) -> Iterator[tuple[int, str, Path]]:
    """(number of the point, the change that was not made, the folder left behind) for each point of `action`.

    `action` gets an empty folder of its own each time, and must change files below it only.
    """
    counted = folder / "counted"
    counted.mkdir()
    log = folder / "log"
    assert in_child(lambda: action(counted), counted, None, log) == 0
    points = log.read_text().splitlines()
    for number, change in enumerate(points):
        home = folder / str(number)
        home.mkdir()
        code = in_child(lambda home=home: action(home), home, number, folder / f"log.{number}")
        assert code == KILLED, (number, change, code)
        yield number, change.replace(str(counted), ""), home
