"""Whether this machine has the requested device: checked once, before anything starts on it."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping
from typing import Literal, get_args

from rldyno.errors import Problem
from rldyno_rig.cuda_driver import open_cuda_driver

Device = Literal["cpu", "cuda"]
DEVICES: tuple[str, ...] = get_args(Device)
HIDDEN = "CUDA_VISIBLE_DEVICES"


def check_device(device: str, instead: str = "leave out --device cuda") -> None:
    """A Problem if no worker could use it; `instead` is how to do without it."""
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


def check_gpus(workers: int) -> None:
    """A Problem if so many workers of one trial cannot have a GPU each."""
    if workers == 1:
        return
    count, _ = usable_gpus()
    if workers > count:
        raise Problem(
            f"{workers} workers need {workers} GPUs, this process may use {count}",
            fix="give fewer `workers`, or let them share a GPU with `share_gpu = true`",
        )


def usable_gpus() -> tuple[int, str | None]:
    """(how many GPUs a worker can use, why the machine has none; no reason if all are hidden)."""
    from rldyno.probe.nvml import opened_nvml, visible_devices

    with opened_nvml() as (nvml, reason):
        if nvml is None:
            # Some boards compute without NVML. What NVML would measure is then missing, with this reason.
            count = gpus_of_the_driver()
            return count, None if count else reason
        try:
            if not nvml.nvmlDeviceGetCount():
                return 0, "the driver lists none"
            return len(visible_devices(nvml, os.environ)), None
        except nvml.NVMLError as error:
            return 0, f"NVML: {error}"


def gpu_names(variables: Mapping[str, str]) -> list[str]:
    """The GPUs that a process with these variables can use, as CUDA_VISIBLE_DEVICES names them."""
    from rldyno.probe.nvml import opened_nvml, visible_devices

    chosen = [name.strip() for name in variables.get(HIDDEN, "").split(",") if name.strip()]
    with opened_nvml() as (nvml, _):
        if nvml is None:
            return chosen
        found = visible_devices(nvml, variables)
    return chosen[: len(found)] if HIDDEN in variables else [str(number) for number, _ in found]


def gpu_model(device: str) -> str | None:
    """Of the GPUs that a worker on this device can use, `A + B` if they differ; None where none is shown."""
    from rldyno.probe.nvml import opened_nvml, visible_devices

    if device == "cpu":
        return None
    with opened_nvml() as (nvml, _):
        if nvml is None:
            return None
        try:
            found = {nvml.nvmlDeviceGetName(handle) for _, handle in visible_devices(nvml, os.environ)}
        except nvml.NVMLError:
            return None
    return " + ".join(sorted(found)) or None


def gpus_of_the_driver() -> int:
    """How many CUDA itself can use, of those that CUDA_VISIBLE_DEVICES leaves."""
    try:
        cuda = open_cuda_driver()
    except OSError:
        return 0
    count = ctypes.c_int(0)
    failed = cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(count))
    return 0 if failed else count.value
