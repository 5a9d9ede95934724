"""Stands in for the NVIDIA library: a GPU that draws 100 W and gains 512 MiB half a second after opening."""

import time
from types import SimpleNamespace

GIB = 2**30
OPENED = time.monotonic()
NVML_CLOCK_SM, NVML_CLOCK_MEM = 1, 2
nvmlMemory_v2 = 2


class NVMLError(Exception):
    pass


class NVMLError_FunctionNotFound(NVMLError):
    pass


class NVMLLibraryMismatchError(Exception):
    pass


def nvmlInit():
    pass


def nvmlShutdown():
    pass


def nvmlSystemGetDriverVersion():
    return "999.1"


def nvmlDeviceGetCount():
    return 1


def nvmlDeviceGetHandleByIndex(index):
    return index


def nvmlDeviceGetName(handle):
    return "Fake 9000"


def nvmlDeviceGetUUID(handle):
    return "GPU-0"


def nvmlDeviceGetUtilizationRates(handle):
    return SimpleNamespace(gpu=40)


def nvmlDeviceGetPowerUsage(handle):
    return 100_000


def nvmlDeviceGetTotalEnergyConsumption(handle):
    return int(100_000 * time.monotonic())


def nvmlDeviceGetMemoryInfo(handle, version=None):
    gained = GIB // 2 if time.monotonic() > OPENED + 0.5 else 0
    return SimpleNamespace(used=GIB + gained, reserved=GIB // 4)


def nvmlDeviceGetClockInfo(handle, clock):
    return 1980 if clock == NVML_CLOCK_SM else 2619


def nvmlDeviceGetCurrentClocksEventReasons(handle):
    return 0x4


def nvmlDeviceGetComputeRunningProcesses(handle):
    raise NVMLError("Insufficient Permissions")
