"""Fingerprints of the code that computed something."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Dict, Iterable

HERE = Path(__file__).resolve().parent
# What defines "right": a proof made against other code than this proves nothing.
REFERENCE = ("reference", "proof", "spec.py", "batches.py")


def hashes(backend_file: str) -> Dict[str, str]:
    """SHA-256 of the backend, of the reference, and of all the shared code of the rig."""
    everything = [path for path in sources(HERE) if path.parent.name != "backends"]
    reference = [path for name in REFERENCE for path in sources(HERE / name)]
    return {
        "backend_sha256": digest([Path(backend_file)]),
        "reference_sha256": digest(reference),
        "rig_sha256": digest(everything),
    }


def sources(root: Path) -> Iterable[Path]:
    return sorted(root.rglob("*.py")) if root.is_dir() else [root]


def digest(paths: Iterable[Path]) -> str:
    sha = hashlib.sha256()
    for path in paths:
        sha.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return sha.hexdigest()
