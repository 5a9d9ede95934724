"""Locks that name their holder and end with its process."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from rldyno.errors import Problem
from rldyno.records.files import Json, naming, now_iso


class LockedError(Exception):
    """Another living process holds the lock; `holder` is what it wrote about itself."""

    def __init__(self, holder: Json) -> None:
        super().__init__("locked")
        self.holder = holder

    def __str__(self) -> str:
        pid, since = self.holder.get("pid"), self.holder.get("since")
        return f"pid {pid}, since {since}" if pid else "its pid is not known yet"


@contextlib.contextmanager
def locked(path: Path, patience_s: float = 0.5) -> Iterator[None]:
    """Hold `path` exclusively. The system releases it however the process ends.

    flock and not the filelock package: that one empties the file it fails to lock, and with it the name of
    the holder. The wait is longer than another process needs to check whether the lock is held.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o644)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise Problem(
                f"{path} is no plain file", fix="remove it, then run the same command again", code=1
            )
        deadline = time.monotonic() + patience_s
        while not _try_lock(descriptor):
            if time.monotonic() > deadline:
                raise LockedError(_holder(descriptor))
            time.sleep(0.02)
        with naming(path):
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, json.dumps({"pid": os.getpid(), "since": now_iso()}).encode(), 0)
        yield
    finally:
        os.close(descriptor)


def lock_holder(path: Path) -> Json | None:
    """What the process that holds the lock wrote about itself; None when it is free.

    A shared lock: two processes that look do not see each other, and NFS gives no other to a reader.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    try:
        return None if _try_lock(descriptor, fcntl.LOCK_SH) else _holder(descriptor)
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int, kind: int = fcntl.LOCK_EX) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _holder(descriptor: int) -> Json:
    try:
        value = json.loads(os.pread(descriptor, 4096, 0))
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
