"""How much others disturbed the machine while a trial ran: the parts, and one score."""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rldyno.records.outcome import Noise

if TYPE_CHECKING:
    from rldyno.machine.facts import Calibration
    from rldyno.probe.tree import CpuTimes

_CPUS = Path("/sys/devices/system/cpu")
FIRST = "no earlier trial of this run was calibrated on this machine"
NO_STEAL = "the system does not count the time that a hypervisor takes"
NO_FREQUENCY = "the system does not show the frequency of the CPUs"


class Surroundings(NamedTuple):
    """The machine right before a trial."""

    host: str
    calibration: Calibration
    best_calibration_ns: int | None
    """The shortest of the earlier trials on this machine; None for the first."""
    frequency_mhz: float | None
    processor: str | None = None
    gpu: str | None = None
    """Of a trial that uses one."""


def noise_of(before: Surroundings, cpu_times: tuple[CpuTimes, CpuTimes] | None, cpu_s: float) -> Noise:
    """`noise` of an outcome. `cpu_times`: of the worker's CPUs, before and after the trial.

    score = calibration_spread + calibration_slowdown + (steal_percent + foreign_cpu_percent) / 100: the share
    of its time that a trial may have lost to others.
    """
    spread, median_ns = before.calibration.spread, before.calibration.median_ns
    slowdown = None
    if before.best_calibration_ns is not None:
        slowdown = max(0.0, median_ns / before.best_calibration_ns - 1.0)
    foreign, steal = taken_by_others(cpu_times, cpu_s)
    unread = None if cpu_times else "the times of the CPUs were not read"
    reasons = {
        "processor": "the system does not name it" if before.processor is None else None,
        "gpu": "the trial used none, or NVML does not name it" if before.gpu is None else None,
        "calibration_slowdown": FIRST if slowdown is None else None,
        "steal_percent": (unread or NO_STEAL) if steal is None else None,
        "foreign_cpu_percent": (unread or "the trial was shorter than a tick") if foreign is None else None,
        "frequency_mhz": NO_FREQUENCY if before.frequency_mhz is None else None,
    }
    return Noise(
        host=before.host,
        processor=before.processor,
        gpu=before.gpu,
        calibration_ns=median_ns,
        calibration_spread=spread,
        calibration_slowdown=slowdown,
        steal_percent=steal,
        foreign_cpu_percent=foreign,
        frequency_mhz=before.frequency_mhz,
        score=spread + (slowdown or 0.0) + ((foreign or 0.0) + (steal or 0.0)) / 100.0,
        reasons={name: reason for name, reason in reasons.items() if reason},
    )


def rescored(noise: Noise, best: Mapping[str, int]) -> Noise:
    """The noise with what later trials showed: a shorter calibration means that the machine was slow here.

    `best`: machine → shortest calibration of the whole run.
    """
    shortest, median = best.get(str(noise.host)), noise.calibration_ns
    if not shortest or not median or noise.score is None:
        return noise
    known = noise.calibration_slowdown or 0.0
    slowdown = max(known, median / shortest - 1.0)
    reasons = {name: why for name, why in noise.reasons.items() if name != "calibration_slowdown"}
    score = noise.score + slowdown - known
    return replace(noise, calibration_slowdown=slowdown, score=score, reasons=reasons)


def taken_by_others(
    cpu_times: tuple[CpuTimes, CpuTimes] | None, cpu_s: float
) -> tuple[float | None, float | None]:
    """(foreign, steal) percent."""
    if cpu_times is None:
        return None, None
    before, after = cpu_times
    total = after.total_s - before.total_s
    if total <= 0:
        return None, None
    foreign = 100.0 * max(0.0, after.busy_s - before.busy_s - cpu_s) / total
    if before.steal_s is None or after.steal_s is None:
        return foreign, None
    return foreign, 100.0 * (after.steal_s - before.steal_s) / total


def frequency_mhz(cpus: Sequence[int] | None, root: Path = _CPUS) -> float | None:
    """Mean clock of these CPUs, of all when None; None where the system does not show it."""
    names = [f"cpu{cpu}" for cpu in cpus] if cpus else ["cpu[0-9]*"]
    files = [file for name in names for file in root.glob(f"{name}/cpufreq/scaling_cur_freq")]
    found = []
    for file in files:
        with contextlib.suppress(OSError, ValueError):
            found.append(int(file.read_text()) / 1e3)
    return statistics.fmean(found) if found else None
