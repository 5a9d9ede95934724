"""What this machine is, and how steadily it runs right now. What cannot be read is None, never zero."""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import platform
import re
import shutil
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import psutil

if TYPE_CHECKING:
    from rldyno.records.machine_facts import GpuFacts, MachineFacts

_CGROUP_ROOT = Path("/sys/fs/cgroup")


def machine_facts() -> MachineFacts:
    from rldyno.records.machine_facts import MachineFacts

    memory = psutil.virtual_memory()
    gpu_list, no_gpus = gpus()
    allowed = affinity()
    return MachineFacts(
        host_sha256=host_sha256(),
        os=_os_name(),
        kernel=platform.release(),
        architecture=platform.machine(),
        python=platform.python_version(),
        cpu=cpu_model(),
        cores_logical=os.cpu_count(),
        cores_physical=psutil.cpu_count(logical=False),
        cores_usable=usable_cores(),
        affinity=None if allowed is None else tuple(allowed),
        cgroup_cores=cgroup_cores(),
        memory_total_bytes=memory.total,
        memory_available_bytes=memory.available,
        load=_load(),
        gpus=gpu_list,
        gpus_reason=no_gpus,
        **_counter_reasons(),
        compilers=compilers(),
        virtualisation=virtualisation(),
    )


def _counter_reasons() -> dict[str, str | None]:
    """Why the probe will find no CPU energy and no hardware counters; None where it will."""
    from rldyno.probe import perf
    from rldyno.probe.energy_metrics import CPU_ENERGY
    from rldyno.probe.rapl import RaplReader

    counters = perf.Counters([os.getpid()])
    counters.close()
    return {
        "cpu_energy_reason": RaplReader().reasons.get(CPU_ENERGY),
        "counters_reason": counters.reasons.get("instructions"),
    }


def host_sha256() -> str:
    """Identifies a machine without naming it. The hardware counts too: cloud images share host names."""
    marks = (socket.gethostname(), _read(Path("/etc/machine-id")).strip(), cpu_model(), str(os.cpu_count()))
    return hashlib.sha256("\0".join(marks).encode()).hexdigest()[:16]


def usable_cores() -> int:
    """Cores this process may keep busy: its affinity, cut by a container's quota."""
    allowed = affinity()
    cores = len(allowed) if allowed is not None else os.cpu_count() or 1
    quota = cgroup_cores()
    return max(1, min(cores, math.floor(quota))) if quota is not None else cores


def affinity() -> list[int] | None:
    """The CPUs this process may run on; None where the system has no such notion."""
    if sys.platform == "linux":
        return sorted(os.sched_getaffinity(0))
    return None


def cgroup_cores(root: Path = _CGROUP_ROOT, membership: Path = Path("/proc/self/cgroup")) -> float | None:
    """The CPU quota in cores: the tightest on the way from this process's group to the root; None without."""
    quotas = (
        (_quota_v2 if unified else _quota_v1)(group) for unified, group in _groups("cpu", root, membership)
    )
    return min((quota for quota in quotas if quota is not None), default=None)


def usable_memory(root: Path = _CGROUP_ROOT, membership: Path = Path("/proc/self/cgroup")) -> int:
    """Bytes that this process may have at most: the machine's, cut by a container's or a job's limit."""
    limits = (
        _read(group / ("memory.max" if unified else "memory.limit_in_bytes")).strip()
        for unified, group in _groups("memory", root, membership)
    )
    total: int = psutil.virtual_memory().total
    return min([total, *(int(limit) for limit in limits if limit.isdigit())])


def _groups(controller: str, root: Path, membership: Path) -> Iterator[tuple[bool, Path]]:
    """Those on the way from this process's to the root, and whether they are of version 2."""
    for line in _read(membership).splitlines():
        _, controllers, group = line.split(":", 2)
        if controllers == "" or controller in controllers.split(","):
            inside, unified = Path(group.lstrip("/")), controllers == ""
            base = root if unified else root / controller
            yield from ((unified, base / directory) for directory in (inside, *inside.parents))


def gpus() -> tuple[tuple[GpuFacts, ...], str | None]:
    """NVIDIA GPUs, and why there are none."""
    from rldyno.probe.nvml import opened_nvml

    with opened_nvml() as (nvml, reason):
        if nvml is None:
            return (), reason
        try:
            found = tuple(_gpu(nvml, index) for index in range(nvml.nvmlDeviceGetCount()))
        except nvml.NVMLError as error:
            return (), f"NVML: {error}"
        return found, None if found else "the driver lists no GPU"


def machine_variant() -> str:
    """Which variant of a toolchain fits this machine: cuda with an NVIDIA GPU, else cpu."""
    found, _ = gpus()
    return "cuda" if found else "cpu"


def compilers() -> dict[str, str | None]:
    """Compiler → the first line of its `--version`; None where it is not on PATH."""
    return {name: _version_line(name) for name in ("cc", "gcc", "g++", "clang", "clang++", "nvcc")}


def cpu_model() -> str:
    found = re.search(r"^model name\s*:\s*(.+)$", _read(Path("/proc/cpuinfo")), re.MULTILINE)
    if found:
        return found.group(1).strip()
    if sys.platform == "darwin":
        with contextlib.suppress(OSError):
            brand = subprocess.run(
                ["/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"], capture_output=True, text=True
            )
            return brand.stdout.strip() or platform.processor()
    return platform.processor() or platform.machine()


def virtualisation() -> str | None:
    """A hint that other tenants may share the hardware; None if nothing shows it."""
    if any(Path(mark).exists() for mark in ("/.dockerenv", "/run/.containerenv")):
        return "container"
    if re.search(r"^flags\s*:.*\bhypervisor\b", _read(Path("/proc/cpuinfo")), re.MULTILINE):
        product = _read(Path("/sys/class/dmi/id/product_name")).strip()
        return f"virtual machine ({product})" if product else "virtual machine"
    return None


class Calibration(NamedTuple):
    """How long a fixed piece of work takes now."""

    median_ns: int
    spread: float
    """(90th − 10th percentile) / median of the repeats: 0 on a machine that nothing disturbs."""


def calibrate(repeats: int = 20, limit_s: float = 0.1) -> Calibration:
    """Time a fixed kernel `repeats` times; fewer, but five at least, if that takes longer than `limit_s`."""
    for _ in range(3):  # fills caches and raises the clock
        _kernel()
    times: list[int] = []
    stop_at = time.perf_counter_ns() + int(limit_s * 1e9)
    while len(times) < repeats and (len(times) < 5 or time.perf_counter_ns() < stop_at):
        start = time.perf_counter_ns()
        _kernel()
        times.append(time.perf_counter_ns() - start)
    median = statistics.median(times)
    # Not np.quantile, which imports a tenth of NumPy more.
    low, *_, high = statistics.quantiles(times, n=10, method="inclusive")
    return Calibration(int(median), (high - low) / median)


@dataclass(frozen=True)
class CpuTicks:
    """Clock ticks of all CPUs since boot."""

    steal: int
    total: int


def cpu_ticks(stat: Path = Path("/proc/stat")) -> CpuTicks | None:
    """None where the system does not count the time a hypervisor took away."""
    fields = _read(stat).partition("\n")[0].split()
    if len(fields) < 9 or fields[0] != "cpu":
        return None
    ticks = [int(field) for field in fields[1:9]]  # guest time is already inside user time
    return CpuTicks(steal=ticks[7], total=sum(ticks))


def steal_percent(before: CpuTicks | None, after: CpuTicks | None) -> float | None:
    """Share of CPU time between two readings that went to other tenants of the hardware."""
    if before is None or after is None or after.total <= before.total:
        return None
    return 100.0 * (after.steal - before.steal) / (after.total - before.total)


# Small enough for one thread of any BLAS, and for the caches of any core.
_MATRIX = np.linspace(-1.0, 1.0, 48 * 48).reshape(48, 48)


def _kernel() -> float:
    """About 3 ms of interpreter and array work in the proportion of a training loop on a small network."""
    total = 0.0
    for index in range(24_000):
        total += (index & 7) * 0.5
    matrix = _MATRIX
    for _ in range(120):
        matrix = np.tanh(_MATRIX @ matrix)
    return total + float(matrix[0, 0])


def _quota_v2(group: Path) -> float | None:
    quota, _, period = _read(group / "cpu.max").strip().partition(" ")
    return int(quota) / int(period) if quota.isdigit() and period.isdigit() else None


def _quota_v1(group: Path) -> float | None:
    quota = _read(group / "cpu.cfs_quota_us").strip()
    period = _read(group / "cpu.cfs_period_us").strip()
    return int(quota) / int(period) if quota.isdigit() and period.isdigit() else None


def _gpu(nvml: Any, index: int) -> GpuFacts:
    """What a card or driver does not report is None, with the reason in `reasons`."""
    from rldyno.records.machine_facts import GpuFacts

    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    calls: dict[str, Callable[[], Any]] = {
        "name": lambda: nvml.nvmlDeviceGetName(handle),
        "memory_total_bytes": lambda: nvml.nvmlDeviceGetMemoryInfo(handle).total,
        "compute_capability": lambda: "{}.{}".format(*nvml.nvmlDeviceGetCudaComputeCapability(handle)),
        "power_limit_w": lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(handle) / 1e3,
        "sm_clock_max_mhz": lambda: nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_SM),
        "memory_clock_max_mhz": lambda: nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_MEM),
        "driver": nvml.nvmlSystemGetDriverVersion,
        "cuda_driver": lambda: _cuda_version(nvml.nvmlSystemGetCudaDriverVersion()),
    }
    facts: dict[str, Any] = {}
    reasons = {}
    for name, call in calls.items():
        try:
            facts[name] = call()
        except nvml.NVMLError as error:
            reasons[name] = f"NVML: {error}"
    return GpuFacts(index, **facts, reasons=reasons)


def _cuda_version(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"


def _version_line(executable: str) -> str | None:
    path = shutil.which(executable)
    if path is None:
        return None
    try:
        done = subprocess.run(
            [path, "--version"], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=10
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines: list[str] = done.stdout.strip().splitlines()
    return (lines or [path])[0] if done.returncode == 0 else None


def _os_name() -> str:
    with contextlib.suppress(OSError):
        release: Mapping[str, str] = platform.freedesktop_os_release()
        return release.get("PRETTY_NAME", platform.system())
    return f"{platform.system()} {platform.mac_ver()[0] or platform.release()}"


def _load() -> tuple[float, ...] | None:
    """Mean number of runnable processes over 1, 5 and 15 minutes."""
    with contextlib.suppress(OSError, AttributeError):
        return os.getloadavg()
    return None


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
