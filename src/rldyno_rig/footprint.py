"""The worker's own resident set, at moments that a probe of 20 samples a second would miss."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Optional


def resident_bytes() -> Optional[int]:
    """None where the system has no /proc: the probe's nearest sample has to do there."""
    try:
        pages = int(Path("/proc/self/statm").read_bytes().split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")


def used_bytes() -> Optional[int]:
    """The resident set once the C library has given back what was freed: what is used, not what is kept.

    None where that is not glibc. Takes milliseconds: for the end.
    """
    try:
        malloc_trim = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None
    malloc_trim(ctypes.c_size_t(0))
    return resident_bytes()
