"""Which code made a record."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import rldyno


def git_revision() -> str | None:
    """Commit of the checkout this lab runs from, `+` appended when it has changes; None outside one."""
    package = Path(rldyno.__file__).parent
    root = package.parents[1]
    git = shutil.which("git")
    if git is None or not (root / ".git").exists() or package != root / "src" / "rldyno":
        return None
    done = subprocess.run(
        [git, "-C", str(root), "describe", "--always", "--dirty=+", "--abbrev=40", "--exclude=*"],
        capture_output=True,
        text=True,
    )
    return done.stdout.strip() or None
