"""The one place that opens the CUDA driver's library."""

import ctypes
import os


def open_cuda_driver() -> ctypes.CDLL:
    """Not initialised; OSError where this machine has no driver."""
    return ctypes.CDLL("nvcuda.dll" if os.name == "nt" else "libcuda.so.1")
