"""Processes that a worker started and left behind, also in sessions of their own: found and ended (Linux).

A process whose parent ends is given to the next ancestor that asked for orphans, else to init. Trial runners
and the lab ask, so that nothing that a worker started gets away while one of them lives.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import time
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from rldyno_rig.schema import SPAWN_VARIABLE

_PR_SET_CHILD_SUBREAPER = 36
_PATIENCE_S = 5.0
_POLL_S = 0.005
_PROC = Path("/proc")


class _Entry(NamedTuple):
    pid: int
    parent: int


def adopt_orphans() -> None:
    """From now on orphans below this process become its children."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def children() -> set[int]:
    """Of this process."""
    return {entry.pid for entry in _below(os.getpid(), depth=1)} if _has_children() else set()


def end_orphans(spared: Collection[int], *, of_workers_only: bool = False) -> None:
    """Kill and reap every descendant of this process, but for the children `spared` and what descends from
    them. `of_workers_only`: and only what has inherited the variable that every worker has.
    """
    own, dying = os.getpid(), set[int]()
    deadline = time.monotonic() + _PATIENCE_S
    while _has_children() and time.monotonic() < deadline:
        found = [entry for entry in _below(own, spared) if not of_workers_only or _is_of_worker(entry.pid)]
        for entry in found:
            _kill(entry.pid)
        dying |= {entry.pid for entry in found}
        dying -= {pid for pid in dying if _gone(pid)}
        if not (found or dying):
            return
        time.sleep(_POLL_S)


def end_leftovers(directory: Path) -> None:
    """Kill what works in a directory for a worker that is gone, together with its runner and the lab."""
    for pid in _all_pids():
        with contextlib.suppress(OSError):
            if (_PROC / str(pid) / "cwd").readlink() == directory and _is_of_worker(pid):
                _kill(pid)


def _has_children() -> bool:
    """Zombies count. Asking costs a microsecond, looking for them reads a file for each process there is."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return sys.platform == "linux"


def _below(root: int, spared: Collection[int] = (), depth: int | None = None) -> list[_Entry]:
    """What descends from `root`, its children only with a depth of 1."""
    by_parent: dict[int, list[_Entry]] = {}
    for pid in _all_pids():
        with contextlib.suppress(OSError, IndexError):
            fields = (_PROC / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()
            by_parent.setdefault(int(fields[1]), []).append(_Entry(pid, int(fields[1])))
    found, level = [], [root]
    while level and depth != 0:
        entries = [entry for pid in level for entry in by_parent.get(pid, ()) if entry.pid not in spared]
        found += entries
        level = [entry.pid for entry in entries]
        depth = None if depth is None else depth - 1
    return found


def _gone(pid: int) -> bool:
    """Reaped, by us or by its parent. One whose parent dies after it becomes our child only then."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return not (_PROC / str(pid)).exists()


def _all_pids() -> list[int]:
    return [int(entry.name) for entry in _PROC.glob("[0-9]*")]


def _is_of_worker(pid: int) -> bool:
    """Not of one that has ended and is not reaped yet: its variables are gone."""
    try:
        return f"{SPAWN_VARIABLE}=".encode() in (_PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return False


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)
