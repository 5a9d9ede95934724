"""Whose files a command is about to obey."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterable
from pathlib import Path

from rldyno.errors import Problem


def check_owned(paths: Iterable[Path], why: str, fix: str) -> None:
    """A Problem when one of them belongs to another user; root is a user like any other here.

    Missing paths are the business of whoever reads them.
    """
    for path in paths:
        try:
            owner = path.stat().st_uid
        except OSError:
            continue
        if owner != os.geteuid():
            raise Problem(f"{path} belongs to {_name(owner)}, not to you: {why}", fix=fix)


def _name(user: int) -> str:
    try:
        return f"{pwd.getpwuid(user).pw_name} (user {user})"
    except KeyError:
        return f"user {user}"
