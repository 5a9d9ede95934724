"""Fingerprints of the code that computed something."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Dict, Iterable, List

HERE = Path(__file__).resolve().parent
# What defines "right": a proof made against other code than this proves nothing. An algorithm's file is part
# of it as a whole: batches and variants are what is proven, and the rung `loop` proves its train loop.
REFERENCE = ("reference", "proof", "team", "algorithms", "spec.py", "layout.py", "synthetic.py", "shape.py")


def hashes(backend_file: str) -> Dict[str, str]:
    """SHA-256 of the backend with what it imports beside it, of the reference, of the rig's shared code."""
    everything = [path for path in sources(HERE) if path.parent.name != "backends"]
    return {
        "backend_sha256": digest(backend_files(Path(backend_file))),
        "reference_sha256": reference_hash(),
        "rig_sha256": digest(everything),
    }


def reference_hash() -> str:
    return digest(path for name in REFERENCE for path in sources(HERE / name))


def backend_files(path: Path) -> List[Path]:
    """The backend and the files of its folder that it imports, themselves or through each other."""
    found, unread = [path], [path]
    while unread:
        text = unread.pop().read_text("utf-8")
        named = sorted(set(re.findall(r"^ *from rldyno_rig\.backends\.(\w+) import", text, re.M)))
        beside = [file for file in (path.with_name(name + ".py") for name in named) if file not in found]
        found += beside
        unread += beside
    return found


def sources(root: Path) -> Iterable[Path]:
    return sorted([*root.rglob("*.py"), *root.rglob("*.c")]) if root.is_dir() else [root]


def digest(paths: Iterable[Path]) -> str:
    sha = hashlib.sha256()
    for path in paths:
        sha.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return sha.hexdigest()
