"""The library of `native.c`, which the lab compiles once on each machine; without it, NumPy does the same."""

from __future__ import annotations

import ctypes
import hashlib
import os
from functools import lru_cache
from pathlib import Path
from typing import Any, Optional

from rldyno_rig.schema import NATIVE_VARIABLE

SOURCE = Path(__file__).with_name("native.c")
C, NUMPY = "c", "numpy"
"""What runs the hot parts of the shared loop, as facts.json has it."""

FAILED = "the shared loop cannot use {}: {}. To compile it again, start the study again with `rldyno run`"


def library_name() -> str:
    """A library of another source is never loaded: its name has the hash of the source."""
    return "native-{}.so".format(hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:16])


@lru_cache(maxsize=None)
def library() -> Optional[Any]:
    """The library that the environment names; None where it names none: there NumPy does the work.

    One that is named must be used. Else one contestant of a study could run in C and another in NumPy.
    """
    path = os.environ.get(NATIVE_VARIABLE)
    if not path:
        return None
    if Path(path).name != library_name():
        raise ImportError(FAILED.format(path, "it was compiled from other code"))
    try:
        # PyDLL keeps the interpreter's lock: to let it go and take it again costs 45 ns a call.
        found = ctypes.PyDLL(path)
    except OSError as error:
        raise ImportError(FAILED.format(path, error)) from error
    pointer: Any = ctypes.c_void_p
    number: Any = ctypes.c_int64
    for name, arguments in {
        "rldyno_take": (pointer, pointer, pointer),
        "rldyno_tree_set": (pointer, number, pointer, pointer, number),
        "rldyno_tree_find": (pointer, number, pointer, pointer, number),
        "rldyno_gae_float": (*[pointer] * 6, number, number, ctypes.c_double, ctypes.c_double),
        "rldyno_gae_double": (*[pointer] * 6, number, number, ctypes.c_double, ctypes.c_double),
    }.items():
        function = getattr(found, name)
        function.argtypes, function.restype = arguments, None
    # Called with what `ctypes.byref` made. Without types to check it against a call takes 0.1 µs, else 0.25.
    found.rldyno_flush.restype = found.rldyno_sample.restype = None
    return found


def engine() -> str:
    return NUMPY if library() is None else C


class Memory(ctypes.Structure):
    """`memory` of native.c."""

    _fields_ = [
        *(
            (name, ctypes.c_int64)
            for name in ("capacity", "row_bytes", "action_bytes", "number_bytes", "added", "stride")
        ),
        ("transitions", ctypes.c_void_p),
        *((name, ctypes.c_int64) for name in ("rows", "journal_stride", "n", "taken", "begun")),
        *((name, ctypes.c_void_p) for name in ("powers", "journal", "returned")),
    ]


class Chooser(ctypes.Structure):
    """`chooser` of native.c."""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("draws", "next_double", "generator")),
        ("added", ctypes.c_int64),
    ]


class Batch(ctypes.Structure):
    """`batch` of native.c."""

    _fields_ = [
        ("rows", ctypes.c_int64),
        *((name, ctypes.c_void_p) for name in ("index", "obs", "action", "reward", "discount", "next_obs")),
        *((name, ctypes.c_void_p) for name in ("from_memory", "chooser")),
    ]
