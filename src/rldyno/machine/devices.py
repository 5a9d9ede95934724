"""Whether this machine has the device that is asked for: told once, before anything starts on it."""

from __future__ import annotations

import ctypes
import os
from typing import Literal, get_args

from rldyno.errors import Problem

Device = Literal["cpu", "cuda"]
DEVICES: tuple[str, ...] = get_args(Device)
HIDDEN = "CUDA_VISIBLE_DEVICES"


def check_device(device: str, instead: str = "leave out --device cuda") -> None:
    """A Problem if no worker could use it; `instead` tells how to do without."""
    if device not in DEVICES:
        raise Problem(f"--device {device}: unknown here", fix=f"choose from: {', '.join(DEVICES)}")
    if device == "cpu":
        return
    count, reason = usable_gpus()
    if count:
        return
    if reason is None:
        raise Problem(
            f"{HIDDEN}={os.environ.get(HIDDEN, '')} hides every GPU of this machine",
            fix=f"unset {HIDDEN}, or {instead}",
        )
    raise Problem(
        f"this machine has no GPU that can be used: {reason}",
        fix=f"run where `nvidia-smi` lists a GPU (its driver must be installed), or {instead}",
    )


def usable_gpus() -> tuple[int, str | None]:
    """(how many a worker can see, why the machine has none; no reason if it has, but hidden)."""
    from rldyno.probe.nvml import start_nvml, visible_devices

    nvml, reason = start_nvml()
    if nvml is None:
        # Some boards compute without NVML; what NVML would have measured is then missing, with this reason.
        count = gpus_of_the_driver()
        return count, None if count else reason
    try:
        if not nvml.nvmlDeviceGetCount():
            return 0, "the driver lists none"
        return len(visible_devices(nvml, os.environ)), None
    except nvml.NVMLError as error:
        return 0, f"NVML: {error}"


def gpus_of_the_driver() -> int:
    """How many CUDA itself can use, of those that CUDA_VISIBLE_DEVICES leaves."""
    try:
        cuda = ctypes.CDLL("nvcuda.dll" if os.name == "nt" else "libcuda.so.1")
    except OSError:
        return 0
    count = ctypes.c_int(0)
    failed = cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(count))
    return 0 if failed else count.value
