"""The hot parts of the shared loop, compiled once on each machine for the workers of every toolchain."""

from __future__ import annotations

import platform
import shutil
import subprocess
from functools import cache
from pathlib import Path

from rldyno.config import cache_dir
from rldyno.records.scratch import remove_abandoned_scratch, scratch_directory
from rldyno_rig.parts.native import SOURCE, library_name
from rldyno_rig.schema import NATIVE_VARIABLE

COMPILERS = ("cc", "gcc", "clang")
# No fused multiply-add: results are NumPy's, bit for bit. No tuning for a processor: homes may be shared.
OPTIONS = ("-O2", "-std=c99", "-ffp-contract=off", "-shared", "-fPIC")
TIME_LIMIT_S = 60


def variables() -> dict[str, str]:
    """Tells a worker where the library is; nothing where it cannot be compiled: then NumPy does its work."""
    library = built(cache_dir() / "native" / platform.machine())
    return {} if library is None else {NATIVE_VARIABLE: str(library)}


@cache
def built(home: Path) -> Path | None:
    """The library, compiled now if it is missing. Atomic: another process sees all of it or none."""
    library = home / library_name()
    if library.exists():
        return library
    compiler = next(filter(None, map(shutil.which, COMPILERS)), None)
    if compiler is None:
        return None
    try:
        remove_abandoned_scratch(home)
        with scratch_directory(home) as name:
            made = Path(name) / library.name
            command = [compiler, *OPTIONS, "-o", str(made), str(SOURCE)]
            subprocess.run(command, check=True, capture_output=True, timeout=TIME_LIMIT_S)
            made.replace(library)
    except (OSError, subprocess.SubprocessError):
        return None
    return library
